"""What all views share: links, languages, themes, sizes, security, accessibility."""
import glob
import gzip
import json
import os
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

from page import PageTest, daemon, get, origin

VIEWS = ("walk", "explore", "compare", "check", "cost")
WEB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "web")
[AXE] = glob.glob(os.path.join(sys.prefix, "lib", "python*", "site-packages", "axe_core_python", "axe.min.js"))


class FrameTest(PageTest):
    def test_no_request_leaves_the_origin_and_nothing_is_kept(self):
        self.driver.get_log("performance")
        for view in VIEWS:
            self.open("#" + view)
        urls = [m["params"]["request"]["url"] for m in (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")) if m["method"] == "Network.requestWillBeSent"]
        self.assertGreater(len(urls), 20)
        for url in urls:
            self.assertTrue(url.startswith((origin() + "/", "about:", "data:", "blob:")), url)
        self.assertEqual(self.script("return [document.cookie, localStorage.length, sessionStorage.length]"), ["", 0, 0])

    def test_headers_of_the_page(self):
        for path in ["/"] + ["/page/" + name for name in self.files()]:
            status, headers, _ = get(path)
            self.assertEqual(status, 200, path)
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff", path)
            kind = {"html": "text/html", "css": "text/css", "js": "text/javascript"}[path.rsplit(".", 1)[-1] if path != "/" else "html"]
            self.assertTrue(headers["Content-Type"].startswith(kind), path)
        policy = dict(part.strip().split(" ", 1) for part in get("/")[1]["Content-Security-Policy"].split(";"))
        self.assertEqual(policy["default-src"], "'none'")
        self.assertEqual(policy["script-src"], "'self'")
        self.assertEqual(policy["style-src"], "'self'")

    def files(self):
        return [name for name in sorted(os.listdir(WEB)) if name != "index.html"]

    def test_no_script_or_style_in_the_markup(self):
        text = get("/")[2].decode()
        self.assertNotRegex(text, r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)")

    def test_the_load_is_light_and_takes_one_round(self):
        self.open()
        entries = self.script("return performance.getEntriesByType('resource').filter((e) => /\\/page\\//.test(e.name)).map((e) => e.name)")
        names = {name.rsplit("/", 1)[1] for name in entries}
        markup = get("/")[2].decode()
        for name in names:
            self.assertIn('page/%s"' % name, markup, "not asked for by the markup: a second round")
        size = sum(len(gzip.compress(get("/page/" + name)[2], 6)) for name in names) + len(gzip.compress(get("/")[2], 6))
        self.assertLess(size, 150000)
        whole = sum(len(gzip.compress(get("/page/" + name)[2], 6)) for name in self.files()) + len(gzip.compress(get("/")[2], 6))
        self.assertLess(whole, 150000)
        print("%d bytes at opening, %d in all, compressed ... " % (size, whole), end="")

    def test_both_languages_have_the_same_texts(self):
        self.open()
        keys = self.driver.execute_async_script("""const done = arguments[0];
            Promise.all(['en', 'zh'].map((n) => import(`/page/${n}.js`))).then((m) => done(m.map((x) => Object.entries(x.default))))""")
        english, chinese = [dict(table) for table in keys]
        self.assertEqual(sorted(english), sorted(chinese))
        for key, text in english.items():
            self.assertTrue(text and chinese[key], key)
            self.assertEqual(sorted(re.findall(r"\{\w+\}", text)), sorted(re.findall(r"\{\w+\}", chinese[key])), key)
        source = "".join(open(os.path.join(WEB, name), encoding="utf-8").read() for name in self.files() + ["index.html"] if name not in ("en.js", "zh.js"))
        used = set(re.findall(r"\bt\('(\w+)'", source)) | set(re.findall(r'data-t(?:-label)?="(\w+)"', source))
        self.assertEqual(used - set(english), set())

    def test_switching_the_language_keeps_the_state(self):
        self.open("#walk?preset=sentence&step=4")
        before = self.matrices()
        self.one("[data-lang=zh]").click()
        self.wait("document.querySelector('h1').textContent.includes('\u6ce8\u610f\u529b')")
        self.wait("document.querySelector('#walk .card')")
        self.assertEqual(self.script("return document.documentElement.lang"), "zh-Hans")
        self.assertEqual(self.matrices(), before)
        self.assertIn("lang=zh", self.fragment())
        self.assertIn("step=4", self.fragment())
        left = self.script("return [...document.querySelectorAll('#walk [data-t], #walk .controls span, #walk .hint, #walk .note')].map((e) => e.textContent).filter((s) => /[a-z]{4}/.test(s))")
        self.assertEqual([text for text in left if not re.search("softmax|exp|mask|kv_lengths|step", text)], [])

    def test_links_carry_every_control(self):
        for fragment in ("#walk?step=3&preset=cross", "#explore?example=grouped&head=3&map=cividis&norm=log&range=matrix&pool=mean&order=entropy&top=3&threshold=0.1", "#explore?show=scaled&head=max",
                         "#compare?source=window&change=noScale&head=1", "#cost?n=128&d=32&heads=2&dtype=F32&causal=true", "#walk?theme=dark&lang=zh", "#walk?theme=light&lang=en"):
            self.open(fragment)
            wanted = dict(urllib.parse.parse_qsl(fragment.split("?")[1]))
            self.assertEqual(dict(urllib.parse.parse_qsl(self.fragment().split("?")[1])), wanted)
        self.open("#explore")
        for selector, value in (("#ex-map", "grey"), ("#ex-norm", "log"), ("#ex-range", "matrix"), ("#ex-pool", "mean"), ("#ex-head", "2"), ("#ex-top", "7"), ("#ex-order", "entropy")):
            usual = self.one(selector).get_attribute("value")
            self.choose(selector, value)
            self.assertIn("=" + value, self.fragment())
            self.choose(selector, usual)
            self.assertNotIn("=" + value, self.fragment())
        self.assertNotIn("?", self.script("return location.href.split('#')[0]"))

    def test_a_link_that_is_too_long_says_so(self):
        self.open("#explore?request=" + urllib.parse.quote(json.dumps({"q": [[0.123456789] * 40] * 40, "k": [[0.1] * 40] * 40, "v": [[1]] * 40})))
        [link] = [b for b in self.all("#explore .share button") if b.text == "Link"]
        self.script("HTMLAnchorElement.prototype.click = function () { window.downloaded = this.download }; arguments[0].click()", link)
        self.wait("window.downloaded === 'request.json'")
        self.assertIn("characters", self.text("#explore .share [role=status]"))

    def test_without_javascript_the_page_says_what_to_do(self):
        markup = get("/")[2].decode()
        self.assertRegex(markup, r"(?s)<noscript>.*curl .*attention.*</noscript>")

    def test_narrow_screens_and_large_text(self):
        for width in (320, 390, 768):
            self.size(width, 800, mobile=True)
            for view in VIEWS:
                self.open("#" + view)
                self.assertLessEqual(self.script("return document.documentElement.scrollWidth"), width, "%s at %d" % (view, width))
        self.size(640, 900)
        for view in VIEWS:
            self.open("#" + view)
            self.script("document.documentElement.style.fontSize = '32px'")
            time.sleep(0.2)
            self.assertLessEqual(self.script("return document.documentElement.scrollWidth"), 640, view + " with text twice as large")

    def test_themes_follow_the_system_until_chosen(self):
        paper = "return getComputedStyle(document.documentElement).backgroundColor"
        self.open()
        light = self.script(paper)
        self.theme("dark")
        dark = self.script(paper)
        self.assertNotEqual(light, dark)
        self.one("#theme").click()
        self.assertEqual(self.script(paper), light)
        self.assertIn("theme=light", self.fragment())

    def test_axe_finds_nothing(self):
        with open(AXE, encoding="utf-8") as file:
            source = file.read()
        for theme in ("light", "dark"):
            for language in ("en", "zh"):
                for view in VIEWS:
                    self.theme(theme)
                    self.open("#%s?lang=%s" % (view, language))
                    self.script("for (const d of document.querySelectorAll('details')) d.open = true")
                    time.sleep(0.2)
                    self.script(source)
                    found = self.driver.execute_async_script("const done = arguments[0]; axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']}).then((r) => done(r.violations.map((v) => [v.id, v.nodes.slice(0, 4).map((n) => n.html.slice(0, 160) + ' ' + n.any.concat(n.all).map((a) => a.message).join('; '))])))")
                    self.assertEqual(found, [], "%s, %s, %s" % (view, theme, language))

    def test_targets_are_large_enough(self):
        for view in VIEWS:
            self.open("#" + view)
            small = self.script("""return [...document.querySelectorAll('main button, main select, main input, header a, header button')]
                .filter((e) => e.offsetParent && !e.closest('table') && (e.getBoundingClientRect().width < 24 || e.getBoundingClientRect().height < 24)).map((e) => e.outerHTML.slice(0, 100))""")
            self.assertEqual(small, [])

    def test_the_page_can_be_switched_off(self):
        if os.environ.get("PAGE_FROM_FOLDER"):
            self.skipTest("the page is not served by the daemon")
        url = daemon("--no-page")
        for path in ("/", "/page/main.js", "/page/style.css"):
            status, headers, _ = get(path, url)
            self.assertEqual(status, 404)
            self.assertEqual(headers["Content-Type"], "application/problem+json")
        self.assertEqual(get("/version", url)[0], 200)

    def test_the_page_is_compressed_and_not_sent_again(self):
        if os.environ.get("PAGE_FROM_FOLDER"):
            self.skipTest("the page is not served by the daemon")
        for path in ("/", "/page/main.js"):
            request = urllib.request.Request(origin() + path, headers={"Accept-Encoding": "gzip"})
            with urllib.request.urlopen(request) as reply:
                self.assertEqual(reply.headers["Content-Encoding"], "gzip")
                self.assertEqual(gzip.decompress(reply.read()), get(path)[2])
                tag = reply.headers["ETag"]
            request = urllib.request.Request(origin() + path, headers={"If-None-Match": tag})
            with self.assertRaises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(request)
            self.assertEqual(caught.exception.code, 304)


