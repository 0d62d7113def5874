"""Compare, check and cost."""
import json
import urllib.parse

from page import PageTest, flat, number, post


class CompareTest(PageTest):
    def difference(self):
        return float(self.one("#compare [data-part=summary]").get_attribute("data-derived"))

    def test_the_difference_is_that_of_the_replies(self):
        base = {"q": [[2, 0, 1], [0, 2, 1]], "k": [[1, 1, 0], [0, 1, 1]], "v": [[1, 0], [0, 1]]}
        for change, options in (("causal", {"causal": True}), ("noScale", {"scale": "1"}), ("overD", {"scale": "1/d_k"}), ("softcap", {"softcap": 2})):
            self.open("#compare?change=%s&request=%s" % (change, urllib.parse.quote(json.dumps(base))))
            a = flat(post("/attention", {**base, "return": ["weights"]})["weights"])
            b = flat(post("/attention", {**base, **options, "return": ["weights"]})["weights"])
            self.assertEqual(self.difference(), max(abs(x - y) for x, y in zip(a, b)), change)
            ranges = [e.text for e in self.all("#compare .legend .scale")]
            self.assertEqual(ranges[0], ranges[1], "what is compared shares one range")

    def test_a_pruned_head(self):
        self.open("#compare?source=sentence&change=pruned&show=output")
        self.assertGreater(self.difference(), 0)

    def test_equal_requests_have_no_difference(self):
        self.open("#compare?change=own")
        self.assertEqual(self.text("#compare [data-part=summary]"), "No difference.")

    def test_a_change_that_cannot_be_made_says_so(self):
        self.open("#compare?source=causal&change=pruned", ready="document.querySelector('#compare [data-part=status]').classList.contains('bad')")
        self.assertIn("/mha", self.text("#compare [data-part=status]"))

    def test_screens(self):
        for name, width, theme in (("compare-wide", 1400, "light"), ("compare-phone", 390, "dark")):
            self.size(width, 900, mobile=width < 600)
            self.theme(theme)
            self.open("#compare")
            self.shot(name)


class CheckTest(PageTest):
    BASE = {"q": [[2, 0, 1], [0, 2, 1], [1, 1, 0]], "k": [[1, 1, 0], [0, 1, 1], [2, 0, 1]], "v": [[1, 0], [0, 1], [0.5, 2]], "causal": True}

    def check(self, request, output, kind="float32"):
        text = urllib.parse.quote(json.dumps(output))
        self.open("#check?type=%s&request=%s&output=%s" % (kind, urllib.parse.quote(json.dumps(request)), text))

    def figure(self, what):
        return float(self.one("#check [data-what=%s]" % what).get_attribute("data-derived"))

    def test_the_services_own_output_is_within_the_bound(self):
        for request in (self.BASE, {**self.BASE, "softcap": 1}, {**self.BASE, "mask": [[True, False, True]] * 3, "causal": False}):
            self.check(request, post("/attention", request)["output"])
            self.assertIn("good", self.one("#check [data-part=verdict]").get_attribute("class"))
            self.assertLess(self.figure("bound"), 1)
            self.assertLess(self.figure("ulp"), 8)

    def test_the_largest_error_and_its_place(self):
        want = post("/attention", {**self.BASE, "dtype": "float64"})["output"]
        got = json.loads(json.dumps(want))
        got[1][0] += 0.125
        self.check(self.BASE, got)
        self.assertEqual(self.figure("error"), got[1][0] - want[1][0])
        self.assertIn("[1, 0]", self.text("#check [data-part=figures]"))
        self.assertIn("none of the usual mistakes", self.text("#check [data-part=verdict]"))

    def test_mistakes_are_recognised(self):
        masked = {**{name: self.BASE[name] for name in "qkv"}, "mask": [[True, True, False], [False, True, True], [True, False, True]]}
        inverted = [[not x for x in row] for row in masked["mask"]]
        for key, request, made in (
                ("scale 1/d_k", self.BASE, {**self.BASE, "scale": "1/d_k"}), ("no scale", self.BASE, {**self.BASE, "scale": 1}), ("causal mask left out", self.BASE, {**self.BASE, "causal": False}),
                ("causal without the own position", self.BASE, {**self.BASE, "query_offset": -1}), ("mask inverted", masked, {**masked, "mask": inverted})):
            self.check(request, post("/attention", made)["output"])
            self.assertIn(key + ".", self.text("#check [data-part=verdict]"))

    def test_grouped_heads_tiled(self):
        q = [[[1, h], [h, -1]] for h in range(4)]
        k = [[[1, 0.5], [0.25, 1]], [[-1, 2], [1, 1]]]
        v = [[[1], [2]], [[3], [5]]]
        request = {"q": [q], "k": [k], "v": [v]}
        tiled = {"q": [q], "k": [[k[h % 2] for h in range(4)]], "v": [[v[h % 2] for h in range(4)]]}
        self.check(request, post("/attention", tiled)["output"])
        self.assertIn("tiled", self.text("#check [data-part=verdict]"))

    def test_every_example_of_a_mistake_names_itself(self):
        self.open("#check")
        for value, name in self.script("return [...document.querySelectorAll('#check-demo option')].map((e) => [e.value, e.textContent])"):
            self.script("document.querySelector('#check [data-part=result]').hidden = true")
            self.choose("#check-demo", value)
            self.wait("!document.querySelector('#check [data-part=result]').hidden")
            verdict = self.text("#check [data-part=verdict]")
            self.assertIn("nothing wrong" if value == "none" else name + ".", verdict)

    def test_an_output_of_another_shape(self):
        self.open("#check?request=%s&output=%%5B1%%5D" % urllib.parse.quote(json.dumps(self.BASE)), ready="document.querySelector('#check [data-part=status]').classList.contains('bad')")
        self.assertIn("3 \u00d7 2", self.text("#check [data-part=status]"))

    def test_screens(self):
        self.size(1400, 900)
        self.open("#check")
        self.shot("check-wide")
        self.size(390, 900, mobile=True)
        self.theme("dark")
        self.open("#check?lang=zh")
        self.shot("check-phone")


class CostTest(PageTest):
    def test_the_classic_table(self):
        self.open("#cost")
        text = self.text("#cost [data-part=tables]")
        for size in ("512 KiB", "32 MiB", "2 GiB", "30.5 GiB"):
            self.assertIn(size, text)

    def test_steps_follow_the_formulas(self):
        self.open("#cost?n=100&d=8&heads=2&dtype=F32")
        values = [number(e.get_attribute("data-derived")) for e in self.all("#cost table:first-child [data-derived]")[:6]]
        self.assertEqual(values, [8 * 100 * 16 ** 2, 2 * 2 * 100 ** 2 * 8, 5 * 2 * 100 ** 2, 2 * 2 * 100 ** 2 * 8, 2 * 100 ** 2 * 4, 4 * 2 * 100 * 8 * 4 + 4 * 2 * 100])
        self.choose("#cost-n", "200")
        self.assertEqual(number(self.all("#cost table:first-child [data-derived]")[1].get_attribute("data-derived")), 2 * 2 * 200 ** 2 * 8)
        self.assertIn("n=200", self.fragment())

    def test_it_measures_here(self):
        self.open("#cost")
        self.one("#cost [data-part=measure]").click()
        self.wait("document.querySelector('#cost [data-part=measured] table')")
        self.assertEqual(len(self.all("#cost [data-part=measured] tbody tr")), 7)

    def test_screens(self):
        self.open("#cost")
        self.shot("cost-wide")
