"""The walk-through: numbers equal the reply, arithmetic evaluates to its result, edits reach every step."""
import json
import math
import time
import urllib.parse

from selenium.webdriver import Keys

from page import PageTest, evaluate, flat, number, post

WORKED = {
    "x": [[1, 0, 1, 0], [0, 1, 0, 1]], "num_heads": 1, "w_q": [[1, 0, 1], [0, 1, 0], [1, 0, 0], [0, 1, 1]],
    "w_k": [[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]], "w_v": [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]],
}
STAGES = ("scores", "scaled", "capped", "masked", "weights")


class WalkTest(PageTest):
    def request(self):
        """The request behind what is on screen, from the code the page copies."""
        return json.loads(self.copied("curl").split("--data-binary ", 1)[1].strip()[1:-1].replace("'\\''", "'"))

    def copied(self, name, view="walk"):
        self.script("window.copiedText = ''; navigator.clipboard.writeText = async (text) => { window.copiedText = text; }")
        [button] = [b for b in self.all("#%s .share button" % view) if b.text == name]
        self.script("arguments[0].click()", button)
        return self.wait("window.copiedText")

    def compare(self, reply, shown):
        """Every number of the reply is on screen, and no other."""
        heads = len(reply["weights"])
        for stage in STAGES:
            if stage in reply:
                for head in range(heads):
                    self.assertEqual(shown["%s:%d" % (stage, head)], flat(reply[stage][head]), stage)
        for name in ("q", "k", "v"):
            rows = [flat([reply[name][head][i] for head in range(len(reply[name]))]) for i in range(len(reply[name][0]))]
            self.assertEqual(shown[name], flat(rows), name)
        self.assertEqual(shown["output"], flat(reply["output"]))

    def test_opens_with_the_worked_example_from_one_request(self):
        self.driver.get_log("performance")
        self.open()
        posts = [m for m in (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
                 if m["method"] == "Network.requestWillBeSent" and m["params"]["request"]["method"] == "POST"]
        self.assertEqual(len(posts), 1)
        self.assertTrue(json.loads(posts[0]["params"]["request"]["postData"])["trace"])
        self.compare(post("/mha", {**WORKED, "trace": True}), self.matrices())
        for card in self.all("#walk .card"):
            for caption in card.find_elements("css selector", "caption"):
                self.assertRegex(caption.text, r"\d+ \u00d7 \d+")

    def test_numbers_equal_the_reply_for_every_example_and_option(self):
        for preset in ("worked", "sentence", "cross", "grouped"):
            for selector, value in ((None, None), ("#walk-softcap", "2"), ("#walk-length", "1"), ("#walk-left", "0"), ("#walk-scale", "1/d_k")):
                self.open("#walk?preset=" + preset)
                if selector:
                    before = self.fragment()
                    self.choose(selector, value)
                    self.wait("location.hash !== %s" % json.dumps(before))
                    time.sleep(0.3)
                self.compare(post("/mha", self.request()), self.matrices())

    def test_no_number_that_is_not_zero_reads_as_zero(self):
        self.open("#walk?preset=sentence")
        for text, value in self.script("return [...document.querySelectorAll('#walk td[data-value]')].map((e) => [e.textContent, e.dataset.value])"):
            self.assertTrue(text, "an empty cell")
            if float(value.replace("Infinity", "inf")) != 0:
                self.assertNotEqual(float(text.replace("\u2212\u221e", "-inf").replace("\u2212", "-")), 0)

    def test_arithmetic_of_every_cell_gives_its_result(self):
        for preset in ("worked", "sentence", "cross", "grouped"):
            self.open("#walk?preset=%s" % preset)
            self.choose("#walk-softcap", "3")
            self.wait("document.querySelector('[data-id=\"capped:0\"]')")
            seen = self.script("""
                const out = [];
                for (const cell of document.querySelectorAll('#walk .figure td[data-value]')) {
                    cell.dispatchEvent(new PointerEvent('pointerover', {bubbles: true}));
                    const text = document.querySelector('#walk .arithmetic')?.textContent;
                    out.push([cell.closest('table').dataset.id, cell.dataset.value, text, document.querySelectorAll('#walk .source').length]);
                }
                return out;""")
            self.assertGreater(len(seen), 30)
            for name, value, text, sources in seen:
                self.assertGreater(sources, 0, name)
                if text.startswith("= "):
                    self.assertEqual(number(text[2:]), number(value), name)
                    continue
                got, result = evaluate(text)
                self.assertEqual(result, number(value), name)
                self.assertLessEqual(abs(got - result), 1e-5 * (1 + abs(result)), "%s: %s" % (name, text))

    def test_long_sums_show_eight_terms_and_expand(self):
        n = 20
        request = {"q": [[1] * n, [2] * n], "k": [[1] * n, [3] * n], "v": [[1], [2]]}
        self.open("#walk?preset=own&request=" + urllib.parse.quote(json.dumps(request)))
        cell = self.one("[data-id='scores:0'] [data-i='1'][data-j='1']")
        cell.click()
        self.assertEqual(self.text("#walk .arithmetic").count("\u00b7"), 8)
        self.assertIn("12", self.text("#walk .arithmetic .link"))
        self.one("#walk .arithmetic .link").click()
        self.assertEqual(self.text("#walk .arithmetic").count("\u00b7"), n)
        got, result = evaluate(self.text("#walk .arithmetic"))
        self.assertEqual(got, result)

    def test_an_edit_reaches_every_step_and_can_be_undone(self):
        self.open()
        before = self.matrices()
        field = self.one("[data-id=x] input")
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys("2.5")
        self.wait("document.querySelector('[data-id=q] [data-i]').dataset.value === '3.5'")
        self.compare(post("/mha", self.request()), self.matrices())
        self.assertEqual(self.request()["x"], [[2.5, 0, 1, 0], [0, 1, 0, 1]])
        self.assertNotEqual(self.matrices()["output"], before["output"])
        self.one("#walk [data-part=reset]").click()
        self.wait("document.querySelector('[data-id=x] input').dataset.value === '1'")
        self.assertEqual(self.matrices(), before)
        self.one("#walk [data-part=undo]").click()
        self.wait("document.querySelector('[data-id=x] input').dataset.value === '2.5'")

    def test_a_bad_input_keeps_the_last_result_and_says_why(self):
        self.expected_errors = ("422",)
        self.open()
        before = self.matrix("output")
        field = self.one("[data-id=x] input")
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys("one")
        self.wait("document.querySelector('#walk [data-part=status]').classList.contains('bad')")
        self.assertIn("/x/0/0", self.text("#walk [data-part=status]"))
        self.assertEqual(field.get_attribute("aria-invalid"), "true")
        self.assertEqual(self.matrix("output"), before)

    def test_steps_by_buttons_keys_and_link(self):
        self.open()
        self.assertFalse(self.one("#walk [data-part=previous]").is_enabled())
        self.one("#walk [data-part=next]").click()
        self.assertIn("step=1", self.fragment())
        self.assertIn("2", self.text("#walk [data-part=where]"))
        self.assertNotEqual(self.script("return document.querySelector('#walk [data-part=say]').textContent"), "")
        self.script("document.activeElement.blur()")
        self.one("body").send_keys(Keys.ARROW_RIGHT)
        self.assertIn("step=2", self.fragment())
        self.one("body").send_keys(Keys.ARROW_LEFT)
        self.assertIn("step=1", self.fragment())
        self.assertEqual(len(self.all("#walk .card.current")), 1)
        self.open("#walk?step=6")
        self.assertFalse(self.one("#walk [data-part=next]").is_enabled())

    def test_scales_side_by_side(self):
        self.open("#walk?step=3")
        self.wait("document.querySelectorAll('#walk .lesson table').length === 4")
        tables = self.all("#walk .lesson table.mini")
        for table, scale in zip(tables, ("1", "1/d_k", "1/sqrt(d_k)")):
            want = post("/mha", {**WORKED, "scale": scale, "return": ["weights"]})["weights"][0]
            shown = self.script("return [...arguments[0].querySelectorAll('[data-value]')].map((e) => +e.dataset.value)", table)
            self.assertEqual(shown, flat(want))
            ends = self.script("return [...arguments[0].querySelectorAll('[data-derived]')].map((e) => +e.dataset.derived)", table)
            for i, row in enumerate(want):
                self.assertAlmostEqual(ends[2 * i], -sum(w * math.log2(w) for w in row if w > 0), places=6)
                self.assertEqual(ends[2 * i + 1], max(row))
        rows = self.script("return [...document.querySelectorAll('#walk .lesson table.data tbody tr')].map((r) => [...r.querySelectorAll('[data-derived]')].map((e) => +e.dataset.derived))")
        self.assertEqual(len(rows), 2)
        for entropy1, _, entropy_d, _, entropy_root, _ in rows:
            self.assertLess(entropy1, entropy_root)
            self.assertLess(entropy_root, entropy_d)

    def test_three_ways_to_mask(self):
        self.open("#walk?preset=sentence&step=4")
        self.wait("document.querySelectorAll('#walk .lesson table').length === 3")
        sums = self.script("return [...document.querySelectorAll('#walk .lesson table')].map((t) => [...t.querySelectorAll('.extra[data-derived]')].map((e) => +e.dataset.derived))")
        for total in sums[0] + sums[1]:
            self.assertAlmostEqual(total, 1, places=5)
        self.assertLess(sums[2][0], 0.99)
        times0 = self.script("return [...document.querySelectorAll('#walk .lesson table')[1].querySelectorAll('td.cell')].map((e) => +e.dataset.derived)")
        self.assertGreater(times0[1], 0, "a score times 0 is not blocked")

    def test_a_blocked_cell_names_every_rule(self):
        self.open("#walk?preset=sentence&step=4")
        self.choose("#walk-length", "2")
        self.choose("#walk-left", "0")
        self.wait("document.querySelector('[data-id=\"masked:0\"] [data-i=\"0\"][data-j=\"3\"]').title.split(',').length === 2")
        cell = self.one("[data-id='masked:0'] [data-i='0'][data-j='3']")
        self.hover(cell)
        said = self.text("#walk [data-part=cell]")
        self.assertIn("causal", said)
        self.assertIn("padding", said)
        shown = self.matrices()
        blocked = self.script("return [...document.querySelectorAll('[data-id=\"masked:0\"] td')].filter((e) => e.dataset.i).map((e) => e.classList.contains('blocked'))")
        self.assertEqual(blocked, [x == -math.inf for x in shown["masked:0"]])

    def test_a_click_blocks_a_cell_and_a_row_without_keys_says_so(self):
        self.open()
        for j in (0, 1):
            self.one("[data-id='masked:0'] [data-i='0'][data-j='%d']" % j).click()
            self.wait("document.querySelector('[data-id=\"masked:0\"] [data-i=\"0\"][data-j=\"%d\"]').classList.contains('blocked')" % j)
        self.assertNotEqual(self.text("#walk [data-part=empty]"), "")
        shown = self.matrices()
        self.assertEqual(shown["weights:0"][:2], [0, 0])
        self.assertEqual(shown["output"][:3], [0, 0, 0])
        self.assertNotIn("NaN", self.one("#walk .figure").text)
        self.compare(post("/mha", self.request()), shown)

    def test_bias_can_be_edited(self):
        self.open()
        self.one("#walk-bias").click()
        self.wait("document.querySelector('[data-id=bias]')")
        field = self.one("[data-id=bias] input")
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys("1")
        self.wait("location.hash.includes('bias')")
        self.wait("+document.querySelector('[data-id=\"masked:0\"] [data-i]').dataset.value > 2")
        self.compare(post("/mha", self.request()), self.matrices())

    def test_heads_are_bands_and_grouped_heads_share(self):
        self.open("#walk?preset=grouped&step=1")
        self.assertEqual(self.script("return [...document.querySelectorAll('[data-id=q] tbody tr:first-child td')].map((e) => +e.dataset.band)"), [0, 0, 1, 1, 2, 2, 3, 3])
        self.assertEqual(len(self.all("#walk .groups line")), 4)
        self.assertEqual(len(self.all("#walk .groups rect")), 2)
        self.choose("#walk-heads", "2")
        self.wait("!document.querySelector('[data-id=\"scores:2\"]')")
        self.compare(post("/mha", self.request()), self.matrices())

    def test_tables_take_one_tab_stop_and_arrow_keys(self):
        self.open()
        for table in self.all("#walk .figure table"):
            self.assertEqual(self.script("return arguments[0].querySelectorAll('[tabindex=\"0\"]').length", table), 1)
        first = self.one("[data-id='weights:0'] [data-i='0'][data-j='0']")
        first.send_keys(Keys.ARROW_RIGHT)
        self.assertEqual(self.script("return [document.activeElement.dataset.i, document.activeElement.dataset.j]"), ["0", "1"])
        self.assertIn("exp(", self.text("#walk .arithmetic"))
        self.driver.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
        self.assertEqual(self.script("return document.activeElement.dataset.i"), "1")

    def test_copied_code_returns_the_same_bytes(self):
        import shutil
        import subprocess
        self.open("#walk?preset=cross")
        outputs = {}
        for name, command in (("curl", ["sh", "-c"]), ("Python", ["python3", "-c"]), ("JavaScript", ["node", "--input-type=module", "-e"])):
            code = self.copied(name)
            if not shutil.which(command[0]):
                continue
            outputs[name] = subprocess.run([*command, code], check=True, capture_output=True, text=True, timeout=30).stdout.rstrip("\n")
        self.assertGreaterEqual(len(outputs), 2)
        self.assertEqual(len(set(outputs.values())), 1)
        self.compare(json.loads(outputs["curl"]), self.matrices())

    def test_screens(self):
        for name, width, theme, fragment in (("walk-wide-light", 1400, "light", "#walk?preset=sentence&step=5&lang=en"), ("walk-wide-dark", 1400, "dark", "#walk?step=3&lang=zh"),
                                             ("walk-phone-light", 390, "light", "#walk?lang=zh"), ("walk-phone-dark", 320, "dark", "#walk?preset=sentence")):
            self.size(width, 900, mobile=width < 600)
            self.theme(theme)
            self.open(fragment)
            self.shot(name)
