// Colour maps, and which text is readable on a colour.
const stops = {
  viridis: '440154470d6048186a482374472d7b4537814240863e49893b528b375b8d33638d2f6b8e2c728e297a8e26828e23898e21918c1f988b1fa08822a78528ae8032b67a3fbc734ec36b5ec96270cf5784d44b98d83eaddc30c2df23d8e219ece51bfde725',
  cividis: '00224e00285b002e6a0533711a386f273e6e32436d3b496c434e6c4b546c535a6d5a5f6e61656f686a716f70737676767d7c788482798c8878938e789b9476a39a74aba072b4a76fbcae6cc4b468cdbb63d5c25edec958e7d150f0d846f9e03afee838',
  grey: 'ffffff000000',
  // blue to orange, light in the middle: the sign reads without red and green
  signed: '0b3c6f2a6db05f9fd09cc6e6d3e4f2f6f6f4fbdfc3f3b57fdd8440b85a17823a05',
};
export const MAPS = ['viridis', 'cividis', 'grey'];

const tables = {};
/** 256 colours, as bytes r, g, b. */
export function table(name) {
  if (tables[name]) return tables[name];
  const text = stops[name];
  const n = text.length / 6 - 1;
  const at = (i, c) => parseInt(text.slice(6 * i + 2 * c, 6 * i + 2 * c + 2), 16);
  const out = new Uint8Array(768);
  for (let level = 0; level < 256; level++) {
    const x = (level / 255) * n;
    const i = Math.min(Math.floor(x), n - 1);
    for (let c = 0; c < 3; c++) out[3 * level + c] = Math.round(at(i, c) + (x - i) * (at(i + 1, c) - at(i, c)));
  }
  return (tables[name] = out);
}

/** Level 0 to 255 of a number in a range; below and above it the ends. log: the range is of positive numbers. */
export function level(x, { low, high, log }) {
  if (log) {
    if (!(x > low)) return 0;
    return Math.min(255, Math.round((255 * Math.log(x / low)) / Math.log(high / low) || 0));
  }
  if (!(high > low)) return x < low ? 0 : 255;
  return Math.max(0, Math.min(255, Math.round((255 * (x - low)) / (high - low))));
}

export const css = (colours, l) => `rgb(${colours[3 * l]} ${colours[3 * l + 1]} ${colours[3 * l + 2]})`;

function luminance(r, g, b) {
  const linear = (c) => ((c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
}
/** Black or white, whichever has the greater contrast: at least 4.5:1 on any colour. */
export const inkOn = (colours, l) => (luminance(colours[3 * l], colours[3 * l + 1], colours[3 * l + 2]) > 0.179 ? '#000' : '#fff');

/** Eight hues for heads, apart for most eyes; then they repeat, and the head's number tells. */
export const HEADS = ['#2f6fb5', '#c4611a', '#3d8a4e', '#8a55a8', '#a8783c', '#c2478a', '#5c6b7a', '#8a8a1f'];
