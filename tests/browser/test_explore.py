"""Explore: heatmaps, lines, tables and files hold what the service replied."""
import base64
import json
import math
import os
import struct
import time
import urllib.parse

from selenium.webdriver import Keys

import page
from page import PageTest, flat, number, post


def bits32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


class ExploreTest(PageTest):
    def own(self, request, more=""):
        self.open("#explore?request=%s%s" % (urllib.parse.quote(json.dumps(request)), more))

    def request(self):
        return json.loads(self.script("return document.querySelector('#explore [data-part=text]').value"))

    def table(self):
        """The table of weights as rows of (value or None where blocked), from the screen."""
        self.script("document.querySelector('#explore [data-part=tablePart]').open = true")
        self.wait("document.querySelector('#explore [data-part=table] table')")
        found = self.script("return [...document.querySelectorAll('#explore [data-part=table] td[data-row]')].map((e) => [+e.dataset.row, e.dataset.value])")
        rows = {}
        for i, value in found:
            rows.setdefault(i, []).append(number(value))
        return [rows[i] for i in sorted(rows)]

    def point(self, x, y):
        """A pointer at a place from the middle of the heatmap, whether or not that is in view."""
        self.script("""const h = document.querySelector('#explore .heat'); const b = h.getBoundingClientRect();
            h.dispatchEvent(new PointerEvent('pointermove', {pointerId: 1, clientX: b.left + b.width / 2 + arguments[0], clientY: b.top + b.height / 2 + arguments[1], bubbles: true}))""", x, y)

    def tip(self):
        return self.text("#explore .tip")

    def key(self, *keys):
        self.one("#explore .heat").send_keys(*keys)

    def test_table_entropy_and_received_equal_the_reply(self):
        for example in ("causal", "cross", "grouped", "window", "translation", "padding"):
            self.open("#explore?example=" + example)
            reply = post("/attention", {**self.request(), "return": ["weights"]})["weights"]
            weights = reply[0][0] if isinstance(reply[0][0], list) else reply
            shown = self.table()
            self.assertEqual(shown, weights, example)
            for row, text in zip(weights, self.script("return [...document.querySelectorAll('#explore [data-entropy]')].map((e) => e.dataset.entropy)")):
                self.assertAlmostEqual(float(text), -sum(w * math.log2(w) for w in row if w > 0), places=6)
            for j, text in enumerate(self.script("return [...document.querySelectorAll('#explore [data-received]')].map((e) => e.dataset.received)")):
                self.assertAlmostEqual(float(text), sum(row[j] for row in weights), places=5)

    def test_rows_are_queries_and_columns_are_keys(self):
        self.own({"q": [[1, 0], [0, 1]], "k": [[1, 0], [0, 1], [1, 1]], "v": [[1], [2], [3]], "tokens": ["a", "a"], "key_tokens": ["x", "y", "z"]})
        self.assertIn("2", self.text("#explore [data-part=shape]").split("\u00d7")[0])
        self.assertIn("3", self.text("#explore [data-part=shape]").split("\u00d7")[1])
        grid = self.one("#explore .heat")
        self.assertEqual((grid.get_attribute("aria-rowcount"), grid.get_attribute("aria-colcount")), ("2", "3"))
        self.key(Keys.CONTROL, Keys.END)
        self.assertIn("1 a", self.tip())
        self.assertIn("2 z", self.tip())

    def test_keyboard_moves_pins_and_tells(self):
        self.open("#explore?example=causal")
        reply = post("/attention", {**self.request(), "return": ["weights", "scaled"]})
        self.key(Keys.CONTROL, Keys.HOME)
        self.key(Keys.ARROW_DOWN)
        self.key(Keys.ARROW_DOWN)
        self.key(Keys.ARROW_RIGHT)
        cell = self.one("#explore .heat [role=gridcell]")
        self.assertEqual(float(cell.get_attribute("data-value")), reply["weights"][0][0][2][1])
        self.assertIn(str(reply["weights"][0][0][2][1]), self.tip())
        self.assertIn(str(reply["scaled"][0][0][2][1]), self.tip().replace("\u2212", "-"))
        self.assertEqual(cell.find_element("xpath", "..").get_attribute("aria-rowindex"), "3")
        self.assertEqual(cell.get_attribute("aria-colindex"), "2")
        self.key(Keys.ENTER)
        self.script("document.querySelector('#explore .heat').blur()")
        self.assertTrue(self.one("#explore .tip").is_displayed(), "Enter pins")
        self.assertIn("2 sat", self.text("#explore [data-part=row]"))
        self.key(Keys.ESCAPE)
        self.assertFalse(self.one("#explore .tip").is_displayed())
        self.key(Keys.END)
        self.assertIn("causal", self.tip())

    def test_pointer_tells_and_the_tip_does_not_cover_its_cell(self):
        self.open("#explore?example=causal")
        heat = self.one("#explore .heat")
        for x in (-120, 0, 120):
            self.hover(heat, x, 60)
            self.assertTrue(self.one("#explore .tip").is_displayed())
            box = self.script("const t = document.querySelector('#explore .tip').getBoundingClientRect(); const h = document.querySelector('#explore .heat').getBoundingClientRect(); return [t.left, t.top, t.right, t.bottom, h.left + h.width / 2, h.top + h.height / 2]")
            at = (box[4] + x, box[5] + 60)
            self.assertFalse(box[0] < at[0] < box[2] and box[1] < at[1] < box[3])

    def test_blocked_zero_broken_and_outside_look_different(self):
        self.open("#explore?request=%s" % urllib.parse.quote('{"weights": [[0.5, 0, NaN, 3], [0.25, 0.25, 0.25, 0.25]]}') + "&range=unit")
        looks = self.script("return [...document.querySelectorAll('#explore .look')].map((e) => getComputedStyle(e).backgroundColor + getComputedStyle(e).backgroundImage)")
        self.assertEqual(len(set(looks)), 4)
        words = self.text("#explore .legend")
        for word in ("blocked", "zero", "not finite", "out of range", "linear"):
            self.assertIn(word, words)
        colours = self.script("""
            const c = document.querySelector('#explore .heat canvas');
            const seen = new Set();
            const r = c.width / c.clientWidth;
            const row = c.getContext('2d').getImageData(0, Math.round((c.clientHeight - 54 - 70) * r), c.width, 1).data;
            for (let x = 0; x < c.width; x++) seen.add([...row.slice(4 * x, 4 * x + 3)].join());
            return [...seen];""")
        self.assertIn("214,31,140", colours)
        self.assertIn("228,87,46", colours)

    def test_a_bidirectional_request_shows_its_upper_triangle(self):
        self.own({"q": [[1, 0], [0, 1]], "k": [[1, 0], [0, 1]], "v": [[1], [2]]})
        for row in self.table():
            self.assertEqual(len(row), 2)
            self.assertTrue(all(w > 0 for w in row))
        self.assertEqual(self.script("return [...document.querySelectorAll('#explore [data-part=table] td[data-row]')].filter((e) => e.textContent === 'blocked').length"), 0)

    def test_degenerate_matrices_draw(self):
        for request in ({"weights": [[1]]}, {"weights": [[0.5, 0.5], [0.5, 0.5]]}, {"q": [[1]], "k": [[1]], "v": [[1]], "mask": [[False]]}, {"weights": [[]]},
                        {"q": [[1]], "k": [[1]], "v": [[1]]}, {"weights": [[[[0.1, 0.9]]], [[[0.4, 0.6]]]]}):
            self.own(request)
            self.assertTrue(self.one("#explore .heat canvas").is_displayed())
        self.own({"q": [[1]], "k": [[1]], "v": [[1]], "mask": [[False]]})
        self.key(Keys.HOME)
        self.assertIn("Blocked by mask", self.tip())

    def test_pixels_carry_the_colour_of_their_weight(self):
        self.own({"weights": [[0, 0.25, 0.5, 0.75, 1]]}, "&range=unit&map=grey")
        spot = self.script("""
            const c = document.querySelector('#explore .heat canvas');
            const row = c.getContext('2d').getImageData(0, c.height - Math.round((54 + 8) * c.height / c.clientHeight), c.width, 1).data;
            return Array.from({ length: c.width }, (_, x) => row[4 * x]);""")
        greys = set(spot)
        for want in (255, 191, 128, 64, 0):
            self.assertTrue(any(abs(want - grey) <= 1 for grey in greys), "%d in %s" % (want, sorted(greys)))

    def test_legend_follows_the_controls(self):
        self.open("#explore?example=causal")
        self.assertIn("0 \u2026 1", self.text("#explore .legend"))
        self.choose("#ex-range", "matrix")
        self.assertIn("of this matrix", self.text("#explore .legend"))
        self.choose("#ex-norm", "log")
        self.assertIn("logarithmic", self.text("#explore .legend"))
        self.assertIn("e\u22126", self.text("#explore .legend .low"))
        self.choose("#ex-norm", "linear")
        self.choose("#ex-range", "row")
        self.assertIn("largest", self.text("#explore .legend .high"))

    def test_heads_grid_enlarges_and_means_are_named(self):
        self.open("#explore?example=grouped")
        buttons = self.all("#explore .thumbs button")
        self.assertEqual(len(buttons), 8)
        self.assertIn("KV 1", buttons[4].text)
        buttons[5].send_keys(Keys.ENTER)
        self.wait("document.querySelector('#explore [data-part=title]').textContent.includes('head 5')")
        self.assertIn("head=5", self.fragment())
        weights = post("/attention", {**self.request(), "return": ["weights"]})["weights"][0]
        self.assertEqual(self.table(), weights[5])
        self.choose("#ex-head", "mean")
        self.wait("document.querySelector('#explore [data-part=title]').textContent.includes('mean of 8')")
        shown = self.table()
        for i, row in enumerate(shown):
            for j, value in enumerate(row):
                self.assertAlmostEqual(value, sum(weights[h][i][j] for h in range(8)) / 8, places=6)
        self.choose("#ex-order", "entropy")
        self.assertNotEqual([b.text for b in self.all("#explore .thumbs button")][0], "head 0 \u00b7 KV 0")

    def test_lines_draw_weights_and_say_their_share(self):
        self.open("#explore?example=translation&top=2")
        weights = post("/attention", {**self.request(), "return": ["weights"]})["weights"]
        paths = self.script("return [...document.querySelectorAll('#explore .lines path')].map((p) => [+p.dataset.i, +p.dataset.j, +p.dataset.value, +p.getAttribute('stroke-opacity')])")
        for i, row in enumerate(weights):
            mine = sorted(j for (a, j, _, _) in paths if a == i)
            self.assertEqual(mine, sorted(sorted(range(len(row)), key=lambda j: -row[j])[:2]))
        for i, j, value, opacity in paths:
            self.assertEqual(value, weights[i][j])
            self.assertAlmostEqual(opacity, max(0.08, min(1, value)), places=3)
        share = 100 * sum(value for _, _, value, _ in paths) / len(weights)
        self.assertIn("%s %%" % (("%.1f" % share).rstrip("0").rstrip(".")), self.text("#explore [data-part=lineBox] .note"))
        self.hover(self.all("#explore .queries .token")[3])
        self.assertEqual(self.script("return [...document.querySelectorAll('#explore .lines path')].filter((p) => getComputedStyle(p).display !== 'none').map((p) => +p.dataset.i)"), [3, 3])

    def test_a_row_reads_as_a_sentence_and_tints_its_tokens(self):
        self.own({"q": [[2, 0]], "k": [[1, 0], [0, 0], [0, 1], [0, 0]], "v": [[1], [2], [3], [4]], "tokens": ["sat"], "key_tokens": ["cat", "the", "a", "b"]})
        weights = post("/attention", {"q": [[2, 0]], "k": [[1, 0], [0, 0], [0, 1], [0, 0]], "v": [[1], [2], [3], [4]], "return": ["weights"]})["weights"][0]
        self.key(Keys.HOME)
        said = self.text("#explore [data-part=row]")
        self.assertIn("Query 0 sat: Key 0 cat %.2f" % weights[0], said)
        self.assertIn("others", said)
        tinted = self.script("return [...document.querySelectorAll('#explore .tint')].map((e) => e.style.background !== '')")
        self.assertEqual(tinted, [True] * 4)

    def test_tokens_are_text_and_invisible_ones_are_marked(self):
        tokens = ["<img src=x onerror=alert(1)>", " ", "\n", "", "\u202e"]
        n = len(tokens)
        self.own({"q": [[1]] * n, "k": [[1]] * n, "v": [[1]] * n, "tokens": tokens})
        self.assertEqual(self.all("#explore img"), [])
        shown = self.script("return [...document.querySelectorAll('#explore .queries .token')].map((e) => e.textContent)")
        self.assertEqual(shown, ["0 <img\u2423src=x\u2423onerror=alert(1)>", "1 \u2423", "2 \u21b5", "3 \u2205", "4 \u27e8202e\u27e9"])

    def test_mistakes_name_their_place(self):
        self.expected_errors = ("422",)
        bad = "document.querySelector('#explore [data-part=status]').classList.contains('bad')"
        self.open("#explore?request=%s" % urllib.parse.quote(json.dumps({"q": [[1, 2]], "k": [[1]], "v": [[1]]})), ready=bad)
        self.assertIn("/k", self.text("#explore [data-part=status]"))
        self.open("#explore?request=%7Bnot", ready=bad)
        self.assertIn("Not JSON", self.text("#explore [data-part=status]"))

    def test_files_of_safetensors_and_json(self):
        folder = os.path.join(page.screenshots, "files")
        os.makedirs(folder, exist_ok=True)
        header = json.dumps({"__metadata__": {"causal": "true"}, "q": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]}, "k": {"dtype": "F16", "shape": [2, 1], "data_offsets": [8, 12]},
                             "v": {"dtype": "F32", "shape": [2, 1], "data_offsets": [12, 20]}}).encode()
        with open(os.path.join(folder, "qkv.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header + struct.pack("<2f2e2f", 1, 2, 3, 4, 5, 6))
        with open(os.path.join(folder, "weights.json"), "w") as file:
            json.dump({"weights": [[[0.25, 0.75]], [[0.5, 0.5]]], "key_tokens": ["yes", "no"]}, file)
        self.open("#explore")
        field = self.script("const e = document.querySelector('#explore input[type=file]'); e.closest('details').open = true; return e")
        field.send_keys(os.path.join(os.path.abspath(folder), "qkv.safetensors"))
        self.wait("document.querySelector('#explore [data-part=shape]').textContent.startsWith('2 ')")
        self.assertEqual(self.table(), post("/attention", {"q": [[1], [2]], "k": [[3], [4]], "v": [[5], [6]], "causal": True, "return": ["weights"]})["weights"])
        field.send_keys(os.path.join(os.path.abspath(folder), "weights.json"))
        self.wait("document.querySelector('#explore [data-part=shape]').textContent.startsWith('1 ')")
        self.assertEqual(self.table(), [[0.25, 0.75]])
        self.assertEqual(len(self.all("#explore .thumbs button")), 2)

    def test_large_weights_are_pooled_and_zoom_to_single_cells(self):
        self.open("#explore?example=large")
        self.assertIn("4096", self.text("#explore [data-part=shape]"))
        self.assertRegex(self.text("#explore .legend"), r"largest of \d+ \u00d7 \d+")
        self.point(-150, 0)
        self.assertIn("Block", self.tip())
        before = self.tip().splitlines()[0]
        for _ in range(8):
            self.script("""const h = document.querySelector('#explore .heat'); const b = h.getBoundingClientRect();
                h.dispatchEvent(new WheelEvent('wheel', {ctrlKey: true, deltaY: -150, clientX: b.left + b.width / 2 - 150, clientY: b.top + b.height / 2, bubbles: true, cancelable: true}))""")
        self.point(-150, 0)
        self.assertNotIn("largest of", self.text("#explore .legend"))
        self.assertNotIn("Block ", self.tip())
        was, now = [[int(word.strip(",")) for word in text.split() if word.strip(",").isdigit()] for text in (before, self.tip().splitlines()[0])]
        for a, b in zip(was, now):
            self.assertLessEqual(abs(a - b), 8, "the cell under the pointer stays there")
        self.assertLess(self.script("return document.querySelectorAll('*').length"), 5000)
        self.choose("#ex-pool", "mean")
        self.one("#explore .zoom button:last-child").click()
        self.assertIn("mean of", self.text("#explore .legend"))

    def test_the_wheel_alone_scrolls_the_page(self):
        self.open("#explore?example=causal")
        prevented = self.script("const e = new WheelEvent('wheel', {deltaY: 100, bubbles: true, cancelable: true}); document.querySelector('#explore .heat').dispatchEvent(e); return e.defaultPrevented")
        self.assertFalse(prevented)
        self.assertTrue(self.script("const e = new WheelEvent('wheel', {deltaY: 100, ctrlKey: true, bubbles: true, cancelable: true}); document.querySelector('#explore .heat').dispatchEvent(e); return e.defaultPrevented"))

    def test_other_pixel_ratios_point_at_the_same_cell(self):
        seen = []
        for ratio in (1, 1.5, 3):
            self.size(1400, 1000, ratio)
            self.open("#explore?example=causal")
            self.hover(self.one("#explore .heat"), 0, 40)
            seen.append(self.tip())
        self.assertEqual(len(set(seen)), 1)

    def test_cancel_aborts(self):
        self.open("#explore?example=causal")
        self.script("""const real = window.fetch; window.fetch = (url, options) => new Promise((resolve, reject) => options.signal.addEventListener('abort', () => reject(new DOMException('', 'AbortError'))));
            window.realFetch = real; document.querySelector('#explore [data-part=examples] [data-name=cross]').click()""")
        self.wait("!document.querySelector('#explore [data-part=cancel]').hidden")
        self.one("#explore [data-part=cancel]").click()
        self.wait("document.querySelector('#explore [data-part=status]').textContent === 'Cancelled.'")
        self.script("window.fetch = window.realFetch")

    def test_downloads_hold_the_whole_matrix(self):
        self.open("#explore?example=causal")
        weights = post("/attention", {**self.request(), "return": ["weights"]})["weights"]
        self.script("""
            window.files = []; const real = URL.createObjectURL; URL.createObjectURL = (blob) => (window.files.push(blob), real(blob));
            HTMLAnchorElement.prototype.click = function () {};
            for (const b of document.querySelectorAll('#explore [data-part=downloads] button')) b.click();
            return null;""")
        self.wait("window.files.length === 4")
        data = self.driver.execute_async_script("""
            const done = arguments[0];
            Promise.all(window.files.map((f) => new Promise((ok) => { const r = new FileReader(); r.onload = () => ok([f.type, r.result.split(',')[1]]); r.readAsDataURL(f); }))).then(done);""")
        found = {kind: base64.b64decode(text) for kind, text in data}
        lines = found["text/csv"].decode().strip().split("\r\n")
        self.assertEqual(len(lines), 13)
        for i, line in enumerate(lines[1:]):
            cells = line.split(",")[1:] if not line.startswith('"') else line.rsplit('"', 1)[1].split(",")[1:]
            for j, cell in enumerate(cells):
                if j > i:
                    self.assertEqual(cell, "")
                else:
                    self.assertEqual(float(cell), weights[0][0][i][j])
        length = struct.unpack("<Q", found["application/octet-stream"][:8])[0]
        header = json.loads(found["application/octet-stream"][8:8 + length])
        self.assertEqual(header["weights"]["shape"], [1, 4, 12, 12])
        values = struct.unpack("<576f", found["application/octet-stream"][8 + length:])
        self.assertEqual(list(values), [bits32(x) for x in flat(weights)])
        import xml.etree.ElementTree as tree
        svg = tree.fromstring(found["image/svg+xml"])
        self.assertEqual(svg.tag, "{http://www.w3.org/2000/svg}svg")
        self.assertGreaterEqual(len(svg.findall("{http://www.w3.org/2000/svg}rect")), 144)
        self.assertEqual(found["image/png"][:8], b"\x89PNG\r\n\x1a\n")
        with open(os.path.join(page.screenshots, "heatmap.png"), "wb") as file:
            file.write(found["image/png"])
        with open(os.path.join(page.screenshots, "heatmap.svg"), "wb") as file:
            file.write(found["image/svg+xml"])

    def test_opens_in_the_walk_through(self):
        self.own({"q": [[1, 0], [0, 1]], "k": [[1, 0], [0, 1]], "v": [[1], [2]]})
        self.script("document.querySelector('#explore [data-part=walk]').click()")
        self.wait("!document.querySelector('#walk').hidden && document.querySelector('[data-id=output]')")
        self.assertEqual(self.matrices()["output"], flat(post("/attention", {"q": [[1, 0], [0, 1]], "k": [[1, 0], [0, 1]], "v": [[1], [2]]})["output"]))

    def test_screens(self):
        for name, width, theme, fragment in (("explore-wide-light", 1400, "light", "#explore?example=grouped&head=4"), ("explore-wide-dark", 1400, "dark", "#explore?example=translation&lang=zh"),
                                             ("explore-phone", 390, "light", "#explore?example=window"), ("explore-large", 1400, "light", "#explore?example=large&norm=log")):
            self.size(width, 900, mobile=width < 600)
            self.theme(theme)
            self.open(fragment)
            time.sleep(0.3)
            self.shot(name)
