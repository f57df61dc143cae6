"""page_test.py BUILD: what a reader of the pages of --html sees and can do, in a real browser.

The pages are opened from files. Screenshots of every step are left in BUILD/browser/.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.chrome.service import Service

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()
PICTURES = BUILD / "browser"


def start_browser():
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1500,1000", "--no-first-run"):
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)


class InBrowser(unittest.TestCase):
    browser = None  # of the whole run: it takes seconds to start
    command = []  # that makes the page
    machine = ["--from", HERE / "machine.topology"]

    @classmethod
    def setUpClass(cls):
        if not cls.command:
            raise unittest.SkipTest("what the pages have in common")
        PICTURES.mkdir(parents=True, exist_ok=True)
        cls.page = PICTURES / f"{cls.command[0]}.html"
        subprocess.run(
            [BUILD / "tributary", *cls.command, *cls.machine, "--html", cls.page],
            check=True,
            timeout=30,
        )

    def setUp(self):
        self.browser.get(self.page.as_uri())

    def find(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def click(self, selector):
        self.find(selector).click()

    def shown(self, selector):
        return [node for node in self.all(selector) if node.is_displayed()]

    def show(self, name):
        next(button for button in self.all("#views button") if button.text == name).click()

    def data(self):
        text = self.page.read_text(encoding="utf-8")
        return json.loads(text.split('id="data">')[1].split("</script>")[0])

    def link(self, index, inside=""):
        return self.find(f'.drawing:not([hidden]) [data-link="{index}"] {inside}')

    def hover(self, element):
        ActionChains(self.browser, duration=20).move_to_element(element).perform()

    def picture(self, name):
        self.browser.save_screenshot(str(PICTURES / f"{name}.png"))

    def assert_it_asks_for_nothing_and_complains_of_nothing(self):
        self.click("#as-table")
        self.click("#as-picture")
        errors = [entry["message"] for entry in self.browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        self.assertEqual(errors, [])
        requests = []
        for entry in self.browser.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                requests.append(message["params"]["request"]["url"])
        self.assertEqual([url for url in requests if not url.startswith(("file:", "data:"))], [])


class Machine(InBrowser):
    command = ["show"]

    def view_box(self):
        return [float(n) for n in self.find(".drawing").get_dom_attribute("viewBox").split()]

    def link_between(self, lower, upper):
        for index, link in enumerate(self.data()["links"]):
            if [link["lower"], link["upper"]] == [lower, upper]:
                return index, link
        self.fail(f"there is no link from {lower} to {upper}")

    def test_everything_of_the_machine_is_drawn(self):
        names = [node.get_attribute("aria-label").split(":")[0] for node in self.all(".vertex")]
        for name in ("cpu0", "cpu1", "memory0", "gpu0", "gpu7"):
            self.assertIn(name, names)
        self.assertEqual(len(self.all(".link")), len(self.all("table.links tbody tr")))
        self.assertIn("8 GPUs", self.find(".summary").text)
        self.picture("page")

    def test_bottleneck_stands_out(self):
        index, link = self.link_between("switch:0000:81:00.0", "bridge:0000:80")
        self.assertTrue(link["up"]["bottleneck"])
        self.assertTrue(self.link(index, ".halo").is_displayed())
        self.assertEqual(len(self.all(".halo")), 1)
        self.assertIn("bottleneck", self.find(".drawing .labels").text)
        self.assertIn("switch:0000:81:00.0", self.find(".headline").text)

    def test_hovering_a_link_shows_its_numbers(self):
        index, _ = self.link_between("gpu5", "switch:0000:81:00.0")
        card = self.find("#card")
        self.assertFalse(card.is_displayed())
        self.hover(self.link(index, ".hit"))
        self.assertTrue(card.is_displayed())
        for text in ("gpu5", "12.4 GB/s", "9.00 GB/s", "24.0 GB/s", "38 % of nominal", "measured", "2026-11-20"):
            self.assertIn(text, card.text)
        self.assertIn("on", self.link(index).get_attribute("class").split())
        self.picture("hover")
        self.hover(self.find("h1"))
        self.assertFalse(card.is_displayed())

    def test_hovering_a_device_shows_what_it_is(self):
        self.hover(self.find(".nic .box"))
        card = self.find("#card")
        self.assertTrue(card.is_displayed())
        self.assertIn("ConnectX-6 Dx", card.text)
        self.assertIn("100 Gbit/s", card.text)

    def test_keyboard_reaches_a_link(self):
        index, link = self.link_between("gpu5", "switch:0000:81:00.0")
        self.browser.execute_script("arguments[0].focus()", self.link(index))
        self.assertIn(f'{link["up"]["rate_Bps"] / 1e9:.1f} GB/s', self.find("#card").text)
        self.find("body").send_keys(Keys.ESCAPE)
        self.assertFalse(self.find("#card").is_displayed())

    def test_zoom_and_pan_move_the_picture_and_fit_brings_it_back(self):
        whole = self.view_box()
        self.click("#closer")
        closer = self.view_box()
        self.assertAlmostEqual(closer[2], whole[2] / 1.4, delta=1)
        self.assertEqual(self.find("#level").text, "140 %")
        self.browser.execute_script(
            "arguments[0].dispatchEvent(new WheelEvent('wheel', {deltaY: -400, clientX: 300, clientY: 500, cancelable: true}))",
            self.find("#stage"),
        )
        self.assertLess(self.view_box()[2], closer[2])
        before = self.view_box()
        self.picture("zoom")
        drag = ActionChains(self.browser, duration=20).move_to_element(self.find("#stage")).click_and_hold()
        drag.move_by_offset(120, 40).release().perform()
        after = self.view_box()
        self.assertLess(after[0], before[0] - 20)
        self.assertLess(after[1], before[1] - 5)
        self.assertAlmostEqual(after[2], before[2], delta=0.1)
        self.click("#fit")
        self.assertEqual(self.view_box(), whole)

    def test_the_table_has_the_numbers_and_sorts(self):
        self.assertFalse(self.find("#tables").is_displayed())
        self.click("#as-table")
        self.assertTrue(self.find("#tables").is_displayed())
        self.assertFalse(self.find(".drawing").is_displayed())
        rows = {row.find_elements(By.TAG_NAME, "td")[0].text: row.text for row in self.all("table.links tbody tr")}
        self.assertIn("12.4 9.00 24.0", rows["gpu5"])
        self.assertIn("x8 of x16", rows["switch:0000:81:00.0"])
        self.assertEqual(len(self.all("table.pairs tbody tr")), 56)
        self.picture("table")
        heads = self.all("table.links th")
        heads[3].click()
        rates = [int(cell.get_attribute("data-value")) for cell in self.all("table.links tbody td:nth-child(4)")]
        self.assertEqual(rates, sorted(rates))
        heads[3].click()
        rates = [int(cell.get_attribute("data-value")) for cell in self.all("table.links tbody td:nth-child(4)")]
        self.assertEqual(rates, sorted(rates, reverse=True))
        self.click("table.links tbody tr")
        self.assertTrue(self.find(".drawing").is_displayed())
        self.assertTrue(self.find("#card").is_displayed())

    def test_dark_is_dark_and_light_is_light(self):
        def brightness():
            colour = self.browser.execute_script("return getComputedStyle(document.body).backgroundColor")
            return sum(int(n) for n in colour[4:-1].split(","))

        self.assertGreater(brightness(), 600)
        self.click("#theme")
        self.assertLess(brightness(), 150)
        self.picture("dark")
        self.click("#theme")
        self.assertGreater(brightness(), 600)

    def test_it_asks_for_nothing_and_complains_of_nothing(self):
        self.assert_it_asks_for_nothing_and_complains_of_nothing()

    def test_a_narrow_window_still_shows_it(self):
        self.browser.set_window_size(600, 900)
        try:
            self.assertTrue(self.find(".drawing").is_displayed())
            self.assertLessEqual(self.browser.execute_script("return document.documentElement.scrollWidth"), 600)
            self.picture("narrow")
        finally:
            self.browser.set_window_size(1500, 1000)


class Channels(InBrowser):
    command = ["plan", "--hosts", "2"]

    def test_each_pattern_has_its_view(self):
        for name in ("ring", "tree", "chain"):
            self.show(name)
            self.assertIn(name.capitalize(), self.shown(".headline")[0].text)
            self.assertEqual(len(self.shown(".headline")), 1)
            self.assertEqual(len(self.shown(".drawing .link")), len(self.all(".drawing .link")) // 3)
            self.assertGreater(len(self.shown("button.channel")), 0)
            self.picture(f"plan-{name}")

    def test_what_is_full_stands_out_and_says_so(self):
        halos = self.shown(".halo")
        self.assertGreaterEqual(len(halos), 1)
        self.assertIn("full", " ".join(label.text for label in self.shown(".drawing .labels")))
        self.assertIn("Full: ", self.shown("header [data-view]")[0].text)

    def test_hovering_a_link_shows_what_goes_over_it(self):
        links = self.data()["machine"]["links"]
        index = next(i for i, link in enumerate(links) if link["lower"] == "gpu5")
        self.hover(self.link(index, ".hit"))
        card = self.find("#card")
        self.assertTrue(card.is_displayed())
        for text in ("gpu5", "GB/s", "channel 0", "× up"):
            self.assertIn(text, card.text)
        self.show("tree")
        self.hover(self.link(index, ".hit"))
        self.assertTrue(card.is_displayed())
        self.assertIn("gpu5", card.text)
        self.picture("plan-hover")

    def test_hovering_a_channel_shows_it_alone(self):
        self.show("tree")
        channel = self.shown("button.channel")[0]
        self.hover(channel)
        self.assertTrue(self.find("#card").is_displayed())
        self.assertIn("Channel 0", self.find("#card").text)
        self.assertIn("one-flow", self.shown(".drawing")[0].get_attribute("class").split())
        on = self.all(".drawing .flow.on")
        self.assertGreater(len(on), 0)
        self.assertTrue(all("flow-0" in node.get_attribute("class").split() for node in on))
        self.picture("plan-channel")
        self.hover(self.find("h1"))
        self.assertFalse(self.find("#card").is_displayed())
        self.assertEqual(len(self.all(".drawing .on")), 0)

    def test_the_tables_are_those_of_the_view(self):
        self.click("#as-table")
        ring = self.shown("table.loads")
        self.assertEqual(len(ring), 1)
        self.assertIn("100", ring[0].find_element(By.CSS_SELECTOR, "tbody tr").text)
        self.picture("plan-table")
        self.show("tree")
        self.assertEqual(len(self.shown("table.loads")), 1)
        self.assertNotEqual(self.shown("table.loads")[0], ring[0])
        self.shown("table.loads tbody tr[data-row]")[0].click()
        self.assertEqual(len(self.shown(".drawing")), 1)
        self.assertTrue(self.find("#card").is_displayed())

    def test_it_asks_for_nothing_and_complains_of_nothing(self):
        self.show("chain")
        self.assert_it_asks_for_nothing_and_complains_of_nothing()


class Cluster(InBrowser):
    command = ["simulate", "--fabric", "leaf-spine:3x4,4:1,8Gbit/s", "--size", "64M", "--algo", "ring,hierarchical", "--order", "random:1"]
    machine = []

    def test_each_case_has_its_view(self):
        for case in self.data()["cases"]:
            name = ", ".join(word for word in (case["algorithm"], case["order"] and f'order {case["order"]}') if word)
            self.show(name)
            self.assertEqual([line.text.split(":")[0] for line in self.shown(".headline")], [name.split(":")[0]])
            self.assertEqual(len(self.shown(".drawing")), 1)
            self.assertEqual(len(self.shown(".drawing .link")), 3 * 2 + 12)
            self.picture(f"simulate-{case['algorithm']}")

    def test_hovering_an_uplink_shows_its_load(self):
        case = self.data()["cases"][0]
        load = next(link["load"] for link in case["links"] if link["name"] == "leaf1 up")
        self.hover(self.shown(".drawing .link")[0])
        self.assertIn("leaf1 up", self.find("#card").text)
        self.assertIn(f"{float(f'{100 * load:.4g}'):g} %", self.find("#card").text)

    def test_the_table_has_the_cases(self):
        self.click("#as-table")
        rows = [row.text for row in self.shown("table.cases tbody tr")]
        self.assertEqual(len(rows), 2)
        self.assertTrue(rows[1].startswith("hierarchical"))

    def test_it_asks_for_nothing_and_complains_of_nothing(self):
        self.assert_it_asks_for_nothing_and_complains_of_nothing()


def main():
    for program in ("chromedriver", "chromium"):
        if not shutil.which(program):
            print(f"skipped: {program} is not installed")
            return 77
    try:
        InBrowser.browser = start_browser()
    except Exception as error:  # whatever keeps a browser from starting here is no fault of the page
        print(f"skipped: the browser does not start: {str(error).splitlines()[0]}")
        return 77
    try:
        InBrowser.browser.set_page_load_timeout(60)
        result = unittest.main(argv=sys.argv[:1], exit=False, verbosity=2).result
    finally:
        InBrowser.browser.quit()
    return 0 if result.wasSuccessful() else 1


sys.exit(main())
