"""What the tests in a browser share: a page of sample runs, and what one asks of it."""
import json
import os
import tempfile

from browser import Browser
from support import Case

SCREENSHOTS = os.environ.get("TERSE_SCREENSHOTS")

# Pairs of words in one picture that cover each other, and words that leave their card.
OVERLAPS = """
const found = [];
for (const card of document.querySelectorAll("article.card:not([hidden])")) {
  const frame = card.getBoundingClientRect();
  const boxes = [...card.querySelectorAll("svg text, h2, button, .rows > div:not(.track), .keys span, select")]
    .filter((node) => !node.closest(".scroll")) /* it may lie beside what is seen of it */
    .map((node) => ({ text: node.textContent.slice(0, 40), box: node.getBoundingClientRect() }))
    .filter(({ box }) => box.width > 0);
  boxes.forEach(({ text, box }, i) => {
    if (box.left < frame.left - 1 || box.right > frame.right + 1) found.push(`${card.id}: ${text} leaves`);
    for (const other of boxes.slice(i + 1)) {
      const b = other.box;
      if (box.left < b.right - 1 && b.left < box.right - 1 && box.top < b.bottom - 2 && b.top < box.bottom - 2) {
        found.push(`${card.id}: ${text} / ${other.text}`);
      }
    }
  });
}
if (document.documentElement.scrollWidth > window.innerWidth) found.push("the page is too wide");
return found;
"""


def choose_axis(browser, name):
    browser.run("document.querySelector(`#axis input[value=${arguments[0]}]`).click()", name)


class Page(Case):
    """One browser for all tests of a class; each begins with a fresh page."""

    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)
        folder = tempfile.TemporaryDirectory(prefix="terse-shots-")
        cls.addClassCleanup(folder.cleanup)
        cls.shots = SCREENSHOTS or folder.name
        os.makedirs(cls.shots, exist_ok=True)

    def setUp(self):
        super().setUp()
        self.browser.resize(1280, 900)
        self.browser.prefer("light")
        self.browser.open("about:blank")
        self.browser.complaints()
        self.browser.requests()
        self.allowed = ()

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])
        for address in self.browser.requests():
            self.assertTrue(address.startswith(("data:", "about:", *self.allowed)), address)
        super().tearDown()

    def shot(self, name):
        path = os.path.join(self.shots, name + ".png")
        self.browser.screenshot(path)
        self.assertGreater(os.path.getsize(path), 10000)


class ReportPage(Page):
    """A report over `self.folders`."""

    def show(self, folders):
        self.page(*folders)
        self.allowed = ("file://" + self.path("report.html"),)
        self.browser.open("file://" + self.path("report.html"))

    def lines(self, index, kind):
        with open(os.path.join(self.folders[index], "metrics.jsonl"), encoding="utf-8") as file:
            return [line for line in map(json.loads, file) if line["kind"] == kind]

    def paths(self, plot):
        return self.browser.run("""return Object.fromEntries([...document.querySelectorAll(
            `#${arguments[0]} path.series[data-group]`)].map((path) => [path.dataset.group, path.getAttribute("d")]))""", plot)

    def hover(self, plot, group, index):
        """Puts the pointer on the mark of a point and returns what is shown."""
        selector = f'#{plot} circle.mark[data-group="{group}"]'
        self.browser.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", f"#{plot}")
        box = self.browser.run("return document.querySelectorAll(arguments[0])[arguments[1]].getBoundingClientRect().toJSON()",
                               selector, index)
        self.browser.pointer(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        return self.browser.text(f"#{plot} .tip")
