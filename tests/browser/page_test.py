# SPDX-License-Identifier: Apache-2.0
"""page_test.py BUILD: what a reader of the pages of --html sees and can do, in a real browser.

The pages are opened from files. Screenshots of every step are left in BUILD/browser/.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
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
    launcher = []

    @classmethod
    def setUpClass(cls):
        if not cls.command:  # unittest takes those for tests, too
            raise unittest.SkipTest("what the pages have in common")
        PICTURES.mkdir(parents=True, exist_ok=True)
        cls.page = PICTURES / f"{cls.__name__}.html"
        subprocess.run(
            [BUILD / "tributary", *cls.command, *cls.machine, "--html", cls.page, *cls.launcher],
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
        return self.browser.execute_script(
            "return [...document.querySelectorAll(arguments[0])].filter((node) => node.checkVisibility({ visibilityProperty: true }))", selector)

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

    def cdp(self, method, **parameters):
        self.browser.execute_cdp_cmd(f"Emulation.{method}", parameters)

    def on_a_telephone(self):
        self.cdp("setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=True)
        self.browser.refresh()

    def views(self):
        """Shows one view after the other."""
        for i in range(len(self.all(".drawing"))):
            if i:
                self.all("#views button")[i].click()
            yield f"{type(self).__name__}-{i}"


# Texts of the picture that can be seen: [what it says, left, top, right, bottom].
WORDS = """return [...document.querySelectorAll(".drawing:not([hidden]) text")].filter((node) => node.checkVisibility({ visibilityProperty: true }))
    .map((node) => [node.textContent, ...["left", "top", "right", "bottom"].map((side) => node.getBoundingClientRect()[side])])"""
# How large words are, in pixels of the screen: of a font, so that it is the same whichever is installed.
SIZES = """return [...document.querySelectorAll("body *")].filter((node) => node.checkVisibility({ visibilityProperty: true }) &&
    [...node.childNodes].some((one) => one.nodeType === Node.TEXT_NODE && one.textContent.trim()))
    .map((node) => parseFloat(getComputedStyle(node).fontSize) * (node instanceof SVGElement ? node.getScreenCTM().a : 1))"""
# Of texts that would not stand out from what is behind them, by WCAG 2: [contrast, text, class]. Of the screenshot, in which texts are hidden.
CONTRAST = """const [png, done] = arguments, picture = new Image();
const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0.05);
picture.onload = () => {
    const canvas = new OffscreenCanvas(picture.width, picture.height).getContext("2d", { willReadFrequently: true });
    canvas.drawImage(picture, 0, 0);
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), faint = [];
    while (texts.nextNode()) {
        const text = texts.currentNode, node = text.parentElement, style = getComputedStyle(node), range = document.createRange();
        range.selectNodeContents(text);
        const at = node instanceof SVGElement ? node.getBoundingClientRect() : range.getClientRects()[0], whole = node.closest(".wide")?.getBoundingClientRect();
        if (!text.textContent.trim() || !at || !node.checkVisibility({ visibilityProperty: true }) || whole && at.right > whole.right)
            continue;
        const ink = light((node instanceof SVGElement ? style.fill : style.color).match(/[\\d.]+/g));
        const [x, y, width, height] = [at.left + scrollX, at.top + scrollY + 0.3 * at.height, at.width, 0.4 * at.height].map(Math.round);
        if (width < 1 || y + height > picture.height)
            continue;
        const dots = canvas.getImageData(x, y, width, Math.max(1, height)).data, contrasts = [];
        for (let i = 0; i < dots.length; i += 4) {
            const behind = light(dots.slice(i, i + 3));
            contrasts.push(Math.max(ink, behind) / Math.min(ink, behind));
        }
        const worst = contrasts.sort((a, b) => a - b)[Math.floor(contrasts.length / 10)];
        if (worst < 4.5)
            faint.push([worst.toFixed(2), text.textContent, node.getAttribute("class")]);
    }
    done(faint);
};
picture.src = "data:image/png;base64," + png;"""
# What is beyond the window, where it does not scroll in a frame of its own; and the frame's first column, if it does not stay.
BEYOND = """const frames = [...document.querySelectorAll(".wide")], at = (node) => node.getBoundingClientRect();
const moves = frames.filter((frame) => {
    frame.scrollLeft = 999;
    return [...frame.querySelectorAll("tr")].some((row) => at(row.cells[0]).width && Math.abs(at(row.cells[0]).left - at(frame).left) > 1);
});
return [...document.querySelectorAll("body :not(svg *)")].filter((node) => at(node).width && !node.parentNode.closest(".wide") &&
    (at(node).left < 0 || at(node).right > innerWidth + 0.5)).concat(moves).map((node) => node.outerHTML.slice(0, 80))"""
DEVICES = ", ".join(f".drawing:not([hidden]) .{kind}" for kind in ("cpu", "memory", "switch", "gpu", "nic", "host"))
# What is coloured by a number: [band, its words and how much of it is filled].
BANDS = """const widths = (node) => {
    const lane = [...node.parentNode.querySelectorAll("path.bed, path.flow, path.stream")], at = lane.indexOf(node);
    const from = lane.slice(0, at).findLastIndex((one) => one.matches(".bed")), to = lane.slice(at).findIndex((one) => one.matches(".bed"));
    return lane.slice(from, to < 0 ? undefined : at + to).map((one) => one.getAttribute("stroke-width"));
};
return [...document.querySelectorAll(".drawing:not([hidden]) .link, .drawing:not([hidden]) .vertex")].flatMap((part) =>
    [...part.querySelectorAll('[class*="band-"]')].map((node) => [node.getAttribute("class").match(/band-./)[0],
        [...part.querySelectorAll("text")].map((text) => text.textContent).join(" ") + node.getBBox().width + " " + node.getBBox().height +
            (node.matches("path") ? widths(node) : "")]))"""


class Readable(InBrowser):
    """What is asked of each page, also of a larger one by a command whose other page has all the rest asked of it."""

    def tearDown(self):
        self.cdp("setEmulatedMedia", features=[])
        self.cdp("clearDeviceMetricsOverride")
        self.cdp("setEmulatedVisionDeficiency", type="none")

    def assert_words_stand_apart(self):
        words = self.browser.execute_script(WORDS)
        self.assertGreater(len(words), 0)
        for i, (text, left, top, right, bottom) in enumerate(words):
            for other, left2, top2, right2, bottom2 in words[i + 1 :]:
                over = min(right, right2) - max(left, left2) > 2 and min(bottom, bottom2) - max(top, top2) > 0.25 * (bottom - top)
                self.assertFalse(over, f"{text!r} stands over {other!r}")

    def unnamed(self):
        return self.browser.execute_script(f"""return [...document.querySelectorAll({DEVICES!r})].filter((node) =>
            ![...node.querySelectorAll("text")].some((text) => text.checkVisibility({{ visibilityProperty: true }}))).map((node) => node.getAttribute("aria-label"))""")

    def test_words_stand_out_in_the_light_and_in_the_dark(self):
        for scheme in ("light", "dark"):
            self.cdp("setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            self.browser.refresh()
            for name in self.views():
                self.browser.execute_script("""document.head.append(Object.assign(document.createElement("style"), { id: "no-words",
                    textContent: "* { color: transparent !important; transition: none !important } svg text { fill: transparent !important }" }))""")
                width, height = self.browser.execute_script("return [innerWidth, Math.min(4000, document.documentElement.scrollHeight)]")
                picture = self.browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True,
                    "clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}})["data"]
                self.browser.execute_script("document.getElementById('no-words').remove()")
                self.assertEqual(self.browser.execute_async_script(CONTRAST, picture), [], f"{name}, {scheme}")

    def test_words_stand_apart(self):
        for name in self.views():
            self.picture(f"light-{name}")
            self.assert_words_stand_apart()

    def test_a_telephone_shows_all_of_the_picture_in_words_that_can_be_read(self):
        self.on_a_telephone()
        for name in self.views():
            self.picture(f"narrow-{name}")
            self.assertLessEqual(self.browser.execute_script("return document.documentElement.scrollWidth"), 390)
            self.assertEqual(self.browser.execute_script(BEYOND), [])
            self.assertEqual(self.unnamed(), [])
            self.assertGreaterEqual(min(self.browser.execute_script(SIZES)), 9)
            self.assert_words_stand_apart()
            stage = self.find("#stage").rect
            self.assertLessEqual(stage["x"] + stage["width"], 390)
            for sign in self.shown(".drawing .sign .pill"):
                self.assertTrue(stage["x"] <= sign.rect["x"] and sign.rect["x"] + sign.rect["width"] <= stage["x"] + stage["width"])
                self.assertTrue(stage["y"] <= sign.rect["y"] and sign.rect["y"] + sign.rect["height"] <= stage["y"] + stage["height"])


class EveryPage(Readable):
    """What is asked of the page of each command."""

    def test_dark_follows_the_system(self):
        self.cdp("setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        self.browser.refresh()
        colour = self.browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        self.assertLess(sum(int(n) for n in colour[4:-1].split(",")), 150)
        self.picture(f"dark-{type(self).__name__}")

    def test_keys_reach_every_part_and_move_the_picture(self):
        parts, in_reach = (self.all(f".drawing .link{of}, .drawing .vertex{of}") for of in ("", '[tabindex="0"][aria-label]:not([aria-label=""])'))
        self.assertGreater(len(parts), 0)
        self.assertEqual(in_reach, parts)
        self.find("#theme").send_keys(Keys.TAB)
        self.assertTrue(self.find("#card").is_displayed())
        before = self.shown(".drawing")[0].get_dom_attribute("viewBox")
        self.browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
        self.assertNotEqual(self.shown(".drawing")[0].get_dom_attribute("viewBox"), before)
        self.browser.switch_to.active_element.send_keys("0")
        self.browser.switch_to.active_element.send_keys(Keys.ESCAPE)
        self.assertFalse(self.find("#card").is_displayed())

    def test_no_colour_is_needed(self):
        """Parts of different colours differ in their words or in how much of them is filled."""
        for name in self.views():
            bands = self.browser.execute_script(BANDS)
            for band, words in bands:
                same = {other for other, others in bands if others == words}
                self.assertEqual(same, {band}, f"{name}: only the colour tells {words!r} apart")
        for kind in ("deuteranopia", "achromatopsia"):  # for people to look at
            self.cdp("setEmulatedVisionDeficiency", type=kind)
            self.picture(f"{kind}-{name}")

    def test_it_asks_for_nothing_and_complains_of_nothing(self):
        for _ in self.views():
            self.click("#as-table")
            self.click("#fit")
        errors = [entry["message"] for entry in self.browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        self.assertEqual(errors, [])
        requests = []
        for entry in self.browser.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                requests.append(message["params"]["request"]["url"])
        self.assertEqual([url for url in requests if not url.startswith(("file:", "data:"))], [])


class Machine(EveryPage):
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
        self.assertEqual(self.find("#fit").text, "Fit")
        self.click("#closer")
        closer = self.view_box()
        self.assertAlmostEqual(closer[2], whole[2] / 1.4, delta=1)
        self.browser.execute_script(
            "arguments[0].dispatchEvent(new WheelEvent('wheel', {deltaY: -400, ctrlKey: true, clientX: 300, clientY: 500, cancelable: true}))",
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

    def test_a_window_of_another_width_is_fitted_anew_and_of_another_height_is_not(self):
        self.cdp("setDeviceMetricsOverride", width=700, height=900, deviceScaleFactor=1, mobile=False)
        self.browser.refresh()
        self.click("#closer")
        closer = self.view_box()
        self.cdp("setDeviceMetricsOverride", width=700, height=840, deviceScaleFactor=1, mobile=False)
        self.assertEqual(self.view_box(), closer)
        self.cdp("setDeviceMetricsOverride", width=900, height=840, deviceScaleFactor=1, mobile=False)
        self.browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
        self.assertGreater(self.view_box()[2], 1.3 * closer[2])

    def test_the_table_has_the_numbers_and_sorts(self):
        self.click("#as-table")
        self.assertLess(self.find("#tables").rect["y"] - self.browser.execute_script("return scrollY"), 500)
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

    def test_pairs_of_gpus_are_a_heat_map_of_the_faster_way(self):
        pairs = [pair for pair in self.data()["pairs"] if pair["from"].startswith("gpu") and pair["to"].startswith("gpu")]
        self.show("GPU pairs")
        cells = self.shown(".drawing .pair")
        self.assertEqual(len(cells), 56)
        heat = [float(cell.get_attribute("fill-opacity")) for cell in self.shown(".drawing .pair .heat")]
        rates = [max(pair["host"]["rate_Bps"], pair["p2p"]["rate_Bps"] if pair["p2p_works"] else 0) for pair in pairs]
        self.assertEqual(sorted(range(56), key=lambda i: (rates[i], i)), sorted(range(56), key=lambda i: (heat[i], i)))
        for cell, pair, rate in zip(cells, pairs, rates):
            figure, way = cell.text.split()
            self.assertAlmostEqual(float(figure.strip("~≥()")), rate / 1e9, delta=0.06)
            self.assertEqual(way, "P2P" if pair["p2p_works"] and pair["p2p"]["rate_Bps"] == rate else "host")
            self.assertEqual(len(cell.find_elements(By.CSS_SELECTOR, ".unknown")), 0 if pair["p2p_works"] else 1)
        self.hover(cells[-1])
        self.assertIn("through host memory", self.find("#card").text)
        self.picture("pairs")

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


class Channels(EveryPage):
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
        sample = channel.find_element(By.TAG_NAME, "path").get_attribute("stroke")
        channels_own = "rgb({}, {}, {})".format(*bytes.fromhex(sample[1:]))
        self.assertEqual({node.value_of_css_property("stroke") for node in on if node.tag_name == "path"}, {channels_own})
        hops = self.data()["tree"]["channels"][0]["hops"]
        self.assertIn(f'hop {len(hops)} {hops[-1]["from"]} ↔ {hops[-1]["to"]}', self.find("#card").text)
        self.picture("plan-channel")
        self.hover(self.find("h1"))
        self.assertFalse(self.find("#card").is_displayed())
        self.assertEqual(len(self.all(".drawing .on")), 0)

    def test_colours_are_those_of_the_loads(self):
        data = self.data()
        names = {link[way]["name"]: f"{i} {way}" for i, link in enumerate(data["machine"]["links"]) for way in ("up", "down")}
        for load in data["ring"]["loads"]:
            if load["name"] not in names or load["share"] is None:
                continue
            band = sum(load["share"] >= step for step in (0.2, 0.4, 0.6, 0.85))
            index, way = names[load["name"]].split()
            with self.subTest(load["name"]):
                bands = [node.get_attribute("class").split("band-")[1] for node in self.link(int(index)).find_elements(By.CSS_SELECTOR, ".flow")]
                self.assertIn(str(band), bands)

    def test_channels_have_colours_that_stand_out_on_white_and_on_dark_paper(self):
        def light(colour):
            parts = [part / 255 for part in bytes.fromhex(colour[1:])]
            parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
            return 0.05 + sum(part * weight for part, weight in zip(parts, (0.2126, 0.7152, 0.0722)))

        source = (HERE.parents[1] / "src" / "command" / "plan" / "flows.c").read_text(encoding="utf-8")
        colours = re.findall('"(#[0-9a-f]{6})"', source)
        self.assertEqual(len(colours), 16)
        for colour in colours:
            self.assertGreater(light("#ffffff") / light(colour), 3)
            self.assertGreater(light(colour) / light("#12171e"), 3)

    def test_all_hosts_are_at_the_network(self):
        self.assertIn("network: host 1 → host 2 → host 1", self.shown(".drawing")[0].text)
        self.assertEqual([host.text for host in self.shown(".drawing g.host .name")], ["host 1, above", "host 2"])

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


class Sixteen(Readable):
    """Two sockets, too wide to stand beside each other."""

    command = ["plan", "--hosts", "12"]
    machine = ["--from", HERE.parents[1] / "topo" / "four-switch-16gpu" / "machine.topology"]

    def test_it_can_be_read(self):
        self.assertGreaterEqual(min(self.browser.execute_script(SIZES)), 9)
        cpu0, cpu1 = (self.find(f'.drawing:not([hidden]) .cpu[aria-label^="{name}"] .box').rect for name in ("cpu0", "cpu1"))
        self.assertGreater(cpu1["y"], cpu0["y"] + 150)
        self.assertEqual(cpu0["x"], cpu1["x"])
        self.assertEqual(self.all(".drawing:not([hidden]) g.host .name")[-1].get_attribute("textContent"), "host 12")

    def test_a_telephone_shows_a_name_on_every_device(self):
        self.on_a_telephone()
        self.assertEqual(self.unnamed(), [])
        names = [text.get_attribute("textContent") for text in self.shown(".drawing .name")]
        for name in ("gpu9", "10", "15", "NIC", "12"):
            self.assertIn(name, names)

    def test_a_long_legend_leaves_room_for_the_picture(self):
        self.show("tree")
        self.browser.execute_script("""const legend = legendNow(), item = legend.lastElementChild;
            for (let i = 0; i < 40; i++) legend.append(item.cloneNode(true));""")
        self.click("#fit")
        self.assertGreater(self.find("#stage").rect["height"], 500)

    def open_machine(self, name, *command):
        page = PICTURES / f"{name}.html"
        machine = HERE.parents[1] / "topo" / name / "machine.topology"
        subprocess.run([BUILD / "tributary", *command, "--from", machine, "--html", page], check=True, timeout=30)
        self.browser.get(page.as_uri())

    def test_a_socket_without_devices_takes_no_more_than_its_own_room(self):
        self.open_machine("cascade-8gpu", "plan", "--hosts", "2")
        first, second = (panel.rect for panel in self.shown(".drawing .panel"))
        self.assertLess(second["height"], 0.6 * first["height"])
        self.assertGreater(second["y"], first["y"] + first["height"])
        self.assertEqual(self.unnamed(), [])
        self.assert_words_stand_apart()
        self.on_a_telephone()
        self.assertEqual(self.unnamed(), [])

    def test_a_full_nic_has_one_sign_that_no_line_crosses(self):
        self.open_machine("nvlink-pairs-4gpu", "plan", "--hosts", "2")
        for selector in (".labels > .halo", ".labels > .sign"):
            self.assertEqual(len(self.shown(f".drawing:not([hidden]) {selector}")), 2)

    def test_arcs_cross_no_words(self):
        self.open_machine("four-domains-8gpu", "show")
        self.on_a_telephone()
        self.assertEqual(self.unnamed(), [])
        over = self.browser.execute_script("""const at = (node, [x, y]) => new DOMPoint(x, y).matrixTransform(node.getScreenCTM());
            const points = [...svg.querySelectorAll(".bed[d*=C]")].flatMap((node) => Array.from({ length: 200 }, (_, i) => {
                const { x, y } = node.getPointAtLength(node.getTotalLength() * i / 199);
                return at(node, [x, y]);
            }));
            return [points.length, [...svg.querySelectorAll(".labels text")].filter((node) => node.checkVisibility({ visibilityProperty: true })).filter((node) => {
                const box = node.getBoundingClientRect();
                return points.some(({ x, y }) => x > box.left && x < box.right && y > box.top && y < box.bottom);
            }).map((node) => node.textContent)]""")
        self.assertGreater(over[0], 0)
        self.assertEqual(over[1], [])


class Explained(EveryPage):
    """NCCL's channels at the left of Tributary's."""

    command = ["explain", "--hosts", "2"]

    def test_the_gain_is_the_title_and_each_size_has_two_bars(self):
        data = self.data()
        self.assertEqual(self.find("h1").text, data["answer"].split("; ")[0])
        pairs = self.shown(".drawing .pair-of-bars")
        self.assertEqual(len(pairs), len(data["sizes"]))
        for pair, size in zip(pairs, data["sizes"]):
            nccl, ours = (bar.rect["width"] for bar in pair.find_elements(By.CSS_SELECTOR, ".bar"))
            self.assertAlmostEqual(ours / nccl, size["tributary"]["time_us"] / size["nccl"]["time_us"], delta=0.02)
        gain = data["sizes"][-1]["nccl"]["time_us"] / data["sizes"][-1]["tributary"]["time_us"]
        self.assertIn(f"{gain:.2f} times as fast", pairs[-1].text)

    def test_both_sides_are_drawn_and_say_whose_they_are(self):
        self.show("tree")
        data, sides = self.data(), self.shown(".drawing [data-maker]")
        self.assertEqual(len(sides), 2)
        self.assertLess(sides[0].rect["x"] + sides[0].rect["width"], sides[1].rect["x"])
        self.assertIn(f'{data["tributary"]["tree"]["total_Bps"] / data["nccl"]["tree"]["total_Bps"]:.2f} times', self.shown(".headline")[0].text)
        index = next(i for i, link in enumerate(data["machine"]["links"]) if link["lower"] == "gpu5")
        name = data["machine"]["links"][index]["up"]["name"]
        for maker, side in zip(("nccl", "tributary"), sides):
            self.hover(side.find_element(By.CSS_SELECTOR, f'[data-link="{index}"] .hit'))
            load = next(load for load in data[maker]["tree"]["loads"] if load["name"] == name)
            self.assertIn(f'{load["load_Bps"] / 1e9:.2f} of', self.find("#card").text)
            self.assertEqual(len(self.shown(".drawing .link.on")), 2)
        self.picture("explain-hover")

    def test_a_channel_lights_up_on_its_own_side(self):
        self.show("tree")
        channels = self.shown("button.channel")
        self.hover(channels[-1])
        self.assertGreater(len(self.all('.drawing [data-maker="1"] .flow.on')), 0)
        self.assertEqual(len(self.all('.drawing [data-maker="0"] .flow.on')), 0)

    def test_what_is_saved_needs_no_style_sheet_and_has_title_and_legend(self):
        self.show("tree")
        saved = self.browser.execute_script("return savedPicture()")
        for word in (self.data()["answer"].split(" ")[0], "85 % and more", "gpu5", self.data()["nccl"]["maker"]):
            self.assertIn(word, saved)
        for absent in ("class=", "style=", "var(", "<script", "data-link"):
            self.assertNotIn(absent, saved)
        file = PICTURES / "saved.svg"
        file.write_text(saved, encoding="utf-8")
        self.browser.get(file.as_uri())
        self.assertGreater(len(self.all("text")), 20)
        self.picture("explain-saved")


class Order(EveryPage):
    """The ranks as they were, and as they should be."""

    command = ["cluster", "order", "--fabric", "leaf-spine:2x4,4:1,8Gbit/s", "--hosts", "host1,host5,host2,host6,host3,host7,host4,host8"]
    machine = []

    def test_loads_of_uplinks_have_one_measure_on_both_sides(self):
        data = self.data()
        before, after = self.shown(".drawing [data-maker]")
        for side, name in ((before, "before"), (after, "after")):
            filled = side.find_elements(By.CSS_SELECTOR, '.switch [class*="band-"]')
            troughs = side.find_elements(By.CSS_SELECTOR, ".switch .trough")
            self.assertEqual(len(filled), len(data["uplinks"]))
            for fill, trough, link in zip(filled, troughs, data["uplinks"]):
                share = link[name]["ring"] / 1e9 / data["before"]["phases"]["ring"]["time_s"]
                self.assertAlmostEqual(fill.rect["height"] / trough.rect["height"], share, delta=0.02)
            ranks = {row.text.split("\n")[0]: row.text.split("\n")[1] for row in side.find_elements(By.CSS_SELECTOR, ".vertex")}
            self.assertEqual(ranks, {host: f"rank {i}" for i, host in enumerate(data[name]["hosts"])})

    def test_the_gain_is_the_title(self):
        data = self.data()
        self.assertEqual(self.find("h1").text, data["answer"].split("; ")[0])
        was, now = (data[side]["phases"]["ring"]["time_s"] for side in ("before", "after"))
        self.assertIn(f"{was / now:.2f} times as fast", self.shown(".headline")[0].text)
        self.assertIn("NCCL takes the faster: a tree before, a ring after.", self.shown("header [data-view]")[0].text)
        self.show("times")
        times = [data[side]["phases"][phase]["time_s"] for phase in ("ring", "tree") for side in ("before", "after")]
        widths = [bar.rect["width"] for bar in self.shown(".drawing .pair-of-bars .bar")]
        self.assertEqual(len(widths), len(times))
        for width, time in zip(widths, times):
            self.assertAlmostEqual(width / max(widths), time / max(times), delta=0.01)


class OrderOfMany(Readable):
    """More leaves than have room for their bytes, in an order that a launcher gives that takes leaves in turn."""

    command = ["cluster", "order", "--fabric", "leaf-spine:16x12,4:1,100Gbit/s", "--gpus", "8",
               "--hosts", ",".join(f"host{12 * leaf + i + 1}" for i in range(12) for leaf in range(16))]
    machine = []

    def test_every_host_has_a_square_on_both_sides(self):
        for side in self.shown(".drawing [data-maker]"):
            self.assertEqual(len(side.find_elements(By.CSS_SELECTOR, ".vertex")), 192)
        self.assertIn("times as fast", self.shown(".headline")[0].text)


class Bench(EveryPage):
    """With programs of the test's own in the place of nccl-tests."""

    command = ["bench", "--operations", "all_reduce", "--turns", "6"]
    machine = []

    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, str(HERE.parent / "bench"))
        import test_bench  # what it runs is not of this file's tests
        sys.path.pop(0)
        with tempfile.TemporaryDirectory() as folder:
            programs = {"all_reduce_perf": test_bench.FAKE_PERF, "launcher": test_bench.FAKE_LAUNCHER}
            for name, text in programs.items():
                file = pathlib.Path(folder, name)
                file.write_text(text, encoding="utf-8")
                file.chmod(0o700)
            os.environ.update(FAKE="", FAKE_TURNS=f"{folder}/turns", TRIBUTARY_STATE_DIR=folder)
            cls.machine = ["--nccl-tests", folder]
            cls.launcher = ["--", f"{folder}/launcher", "-n", "2"]
            super().setUpClass()

    def test_the_gain_is_the_title_and_each_size_says_how_sure_it_is(self):
        data = self.data()
        self.assertEqual(self.find("h1").text, "AllReduce of 4 KiB and more: 2.00 times as fast")
        pairs = self.shown(".drawing .pair-of-bars")
        self.assertEqual([pair.text.split("\n")[0] for pair in pairs], ["1 KiB", "4 KiB", "16 KiB"])
        for pair, case in zip(pairs, data["cases"]):
            without, with_ = (bar.rect["width"] for bar in pair.find_elements(By.CSS_SELECTOR, ".bar"))
            self.assertAlmostEqual(without / with_, case["without"]["time_s"] / case["with"]["time_s"], delta=0.02)
            self.assertIn("[{low:.2f}, {high:.2f}]".format(**case["ratio"]), pair.text)
        self.assertIn("no difference", pairs[0].text)


class Report(EveryPage):
    """Steps of each rank, and those before a change."""

    command = ["report"]

    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, str(HERE.parent / "report"))
        import test_report  # what it makes of traces
        sys.path.pop(0)
        with tempfile.TemporaryDirectory() as folder:
            files = {}
            for side, exposed_us in (("before", 400), ("after", 200)):
                files[side] = [pathlib.Path(folder, f"{side}{rank}.json") for rank in (0, 1)]
                for rank, file in enumerate(files[side]):
                    file.write_text(json.dumps(test_report.job(600, exposed_us, rank)), encoding="utf-8")
            cls.machine, cls.launcher = ["--before", ",".join(map(str, files["before"]))], files["after"]
            super().setUpClass()

    def test_a_step_is_made_of_computing_and_exposed_communication(self):
        self.assertEqual(self.find("h1").text, "Steps run 1.25 times as fast as before: 800 us, before 1 ms")
        for pair in self.shown(".drawing .pair-of-bars"):
            computing, exposed = ([bar.rect["width"] for bar in pair.find_elements(By.CSS_SELECTOR, f".part-{kind}")] for kind in ("computing", "exposed"))
            self.assertAlmostEqual(exposed[0] / computing[0], 400 / 600, delta=0.01)
            self.assertAlmostEqual(exposed[1] / computing[1], 200 / 600, delta=0.01)
            self.assertAlmostEqual(computing[0], computing[1], delta=0.5)
            self.assertIn("1.25 times as fast", pair.text)
        self.assertEqual(len(self.shown("table.collectives")), 2)

    def test_one_rank_is_no_mean(self):
        page, trace = PICTURES / "one-rank.html", PICTURES / "rank0.json"
        trace.write_text(json.dumps(sys.modules["test_report"].job(600, 400, 0)), encoding="utf-8")
        subprocess.run([BUILD / "tributary", "report", "--html", page, trace], check=True, timeout=30, stdout=subprocess.DEVNULL)
        self.browser.get(page.as_uri())
        self.assertEqual(self.find(".summary").text, "1 rank")
        self.assertEqual([pair.text.split("\n")[0] for pair in self.shown(".drawing .pair-of-bars")], ["rank 0"])


class Simulation(EveryPage):
    command = [
        *("simulate", "--fabric", "leaf-spine:3x4,4:1,8Gbit/s", "--size", "64M", "--order", "leaf,random:1"),
        *("--algo", "ring,hierarchical,aggregators", "--aggregators", "1,8Gbit/s", "--degrade", "host7=50%"),
    ]
    machine = []

    def names(self):
        return [", ".join(word for word in (case["algorithm"], case["order"] and f'order {case["order"]}') if word) for case in self.data()["cases"]]

    def test_bars_are_as_long_as_the_cases_take_and_the_answer_is_above_them(self):
        self.assertEqual(self.shown(".headline")[0].text, self.data()["answer"].replace("`", ""))
        self.assertIn("tributary env", [code.text for code in self.shown(".headline code")])
        times = [case["time_s"] for case in self.data()["cases"]]
        widths = [bar.rect["width"] for bar in self.shown(".drawing .bar")]
        self.assertEqual(len(widths), len(times))
        for width, time in zip(widths, times):
            self.assertAlmostEqual(width / max(widths), time / max(times), delta=0.01)
        self.assertEqual([text.text for text in self.shown(".drawing .vertex text:first-of-type")], self.names())
        self.assertEqual(len(self.shown(".drawing .bar.best")), times.count(min(times)))

    def test_enter_on_a_bar_shows_its_case(self):
        self.browser.execute_script("arguments[0].focus()", self.shown(".drawing .vertex")[1])
        self.assertIn(self.names()[1], self.find("#card").text)
        self.browser.switch_to.active_element.send_keys(Keys.ENTER)
        self.assertTrue(self.shown(".headline")[0].text.startswith(self.names()[1]))

    def test_ticks_cross_no_words(self):
        for name in self.names():
            self.show(name)
            ticks, crossed = self.browser.execute_script("""const ticks = [...svg.querySelectorAll(".tick")].flatMap((node) =>
                [...node.getAttribute("d").matchAll(/M([-\\d.]+) ([-\\d.]+)v([-\\d.]+)/g)].map(([, x, y, high]) => [x, y, high].map(Number)));
                return [ticks.length, [...svg.querySelectorAll("text")].filter((node) => {
                    const { x, y, width, height } = node.getBBox();
                    return ticks.some(([at, top, high]) => at > x && at < x + width && top < y + 0.8 * height && top + high > y + 0.2 * height);
                }).map((node) => node.textContent)]""")
            self.assertGreater(ticks, 5)
            self.assertEqual(crossed, [])

    def test_each_case_has_a_map_of_the_whole_fabric(self):
        for name in self.names():
            self.show(name)
            self.assertTrue(self.shown(".headline")[0].text.startswith(name))
            self.assertTrue(self.shown(".headline")[0].text.endswith(" GB/s of bus bandwidth"))
            self.assertEqual(len(self.shown(".drawing .link")), 4)
            self.assertEqual(len(self.shown(".drawing .vertex:not(.phase)")), 12 + 3)
            self.assertEqual(len(self.shown(".drawing .aggregator")), 3)
            self.assertEqual([row.find_element(By.XPATH, "..").text.split()[0] for row in self.shown(".drawing text.alarm")], ["host7"])
        self.assertIn("The fullest links over time", self.shown(".drawing")[0].text)

    def test_phases_have_a_line_each_on_the_time_of_the_links(self):
        for name, case in zip(self.names(), self.data()["cases"]):
            self.show(name)
            spans = case["jobs"][0]["phases"]
            self.assertEqual(len(spans), {"ring": 2, "hierarchical": 4, "aggregators": 4}[case["algorithm"]])
            lines = self.shown(".drawing .phase")
            self.assertEqual([line.text.split(":")[0] for line in lines], [span["phase"] for span in spans])
            for line, span in zip(lines, spans):
                whole, bar = (line.find_element(By.CSS_SELECTOR, of).rect for of in (".row", '[class^="phase-"]'))
                for place, time in ((bar["x"] - whole["x"], span["start_s"]), (bar["x"] + bar["width"] - whole["x"], span["end_s"])):
                    self.assertAlmostEqual(place / whole["width"], time / case["time_s"], delta=0.005)
        strips = self.shown('.drawing > [class^="phase-"]')
        self.assertLessEqual(len({point["link"] for point in case["timeline"]}), len(strips))
        self.browser.execute_script("arguments[0].focus()", lines[1])
        for text in (spans[1]["phase"], f'{spans[1]["messages"]} messages', spans[1]["links"][0]["link"]):
            self.assertIn(text, self.find("#card").text)
        self.picture("simulate-phases")
        self.click("#as-table")
        self.assertEqual(len(self.shown("table.phases tbody tr")), sum(1 + len(span["links"]) for span in spans))

    def test_a_load_over_time_has_the_colour_of_its_height(self):
        self.show(self.names()[1])
        paths = self.shown('.drawing > path[class^="band-"]')
        self.assertGreater(len({path.get_attribute("class") for path in paths}), 1)
        for path in paths:
            band = int(path.get_attribute("class").split("-")[1])
            share = self.browser.execute_script("return arguments[0].getBBox().height", path) / 22
            self.assertEqual(sum(share >= step - 0.005 for step in (0.2, 0.4, 0.6, 0.85)), band)

    def test_hovering_a_switch_shows_what_its_uplink_carries(self):
        case = self.data()["cases"][0]
        load = next(link["load"] for link in case["links"] if link["name"] == "leaf1 up")
        self.show(self.names()[0])
        self.hover(self.link(0, ".trough"))
        card = self.find("#card").text
        self.assertIn("leaf1", card)
        self.assertIn(f"{float(f'{100 * load:.4g}'):g} % of 8 Gbit/s", card)
        self.picture("simulate-hover")

    def test_the_tables_have_the_cases_and_the_links(self):
        self.show(self.names()[-1])
        self.click("#as-table")
        self.assertEqual([row.text.split(" 0")[0][: len(name)] for row, name in zip(self.shown("table.cases tbody tr"), self.names())], self.names())
        self.assertEqual(len(self.shown("table.links tbody tr")), len(self.data()["cases"][-1]["links"]))
        self.picture("simulate-table")


class Fabric(EveryPage):
    command = ["cluster", "show", HERE.parents[1] / "topo" / "clusters" / "with-aggregators.cluster"]
    machine = []

    def test_the_map_says_who_is_narrow_who_is_slow_and_who_aggregates(self):
        self.assertEqual([part.text for part in self.shown(".drawing .link")],
                         ["spine", "50 Gbit/s\n3.5:1\nleaf1", "100 Gbit/s\n0.5:1\nleaf2", "not known\nleaf3"])
        slow = [part.text.split("\n")[0] for part in self.shown(".drawing .vertex") if "slow" in part.text]
        self.assertEqual(slow, ["gpu10", "gpu11", "old1"])
        self.assertEqual(len(self.shown(".drawing .aggregator")), 2)
        self.assertIn("up to 3.5:1; 3 hosts slower", self.shown(".headline")[0].text)

    def test_hovering_shows_numbers_and_lights_up_the_way_to_the_root(self):
        self.hover(self.link(1, ".box"))
        for text in ("leaf1", "50 Gbit/s up", "7, 175 Gbit/s", "3.5:1", "50 %"):
            self.assertIn(text, self.find("#card").text)
        self.assertEqual(len(self.shown(".drawing .vertex.on")), 8)
        self.assertEqual(len(self.shown(".drawing .link.on")), 2)
        self.hover(next(part for part in self.shown(".drawing .vertex") if part.text.startswith("old1")))
        self.assertIn("slower than most hosts", self.find("#card").text)

    def test_the_tables_have_switches_and_hosts(self):
        self.click("#as-table")
        self.assertIn("leaf1 spine 50 Gbit/s 50 Gbit/s 7 3.5:1 50 %", [row.text for row in self.shown("table.switches tbody tr")])
        self.assertEqual(len(self.shown("table.ends tbody tr")), 14)
        self.shown("table.switches tbody tr")[1].click()
        self.assertIn("leaf1", self.find("#card").text)


class LongNames(Readable):
    """Hosts and switches whose names begin alike and have no room."""

    command = ["cluster", "show"]

    @classmethod
    def setUpClass(cls):
        PICTURES.mkdir(parents=True, exist_ok=True)
        file = PICTURES / "long.cluster"
        lines = [f"switch group{1 + rack // 4}-rail{rack % 4} parent=spine rate=200Gbit/s" for rack in range(8)]
        lines += [f"host gpu-node-rack{1 + rack}-[1-8] leaf=group{1 + rack // 4}-rail{rack % 4} rate={25 if rack == 3 else 100}Gbit/s" for rack in range(8)]
        file.write_text("\n".join(["tributary-cluster 1", "switch spine", *lines, ""]), encoding="utf-8")
        cls.machine = [file]
        super().setUpClass()

    def test_no_two_look_the_same(self):
        hosts = [part.text.split("\n")[0] for part in self.shown(".drawing .vertex")]
        self.assertEqual(len(set(hosts)), 64)
        self.on_a_telephone()
        self.assertEqual(len({bar.text for bar in self.shown(".drawing .on-bar")}), 9)
        for part in self.shown(".drawing .switch"):
            box, name = (part.find_element(By.CSS_SELECTOR, of).rect for of in (".box", ".on-bar"))
            self.assertLessEqual(name["x"] + name["width"], box["x"] + box["width"])


class Racks(Readable):
    """More hosts than can have a line each."""

    command = ["simulate", "--fabric", "fat-tree:8,2:1,100Gbit/s", "--size", "8M", "--algo", "ring", "--degrade", "host9=50%"]
    machine = []

    def test_every_host_has_a_square_filled_as_far_as_it_is_loaded(self):
        self.assertEqual(len(self.shown(".drawing .vertex")), 128)
        self.assertEqual(len(self.shown(".drawing .vertex .slow")), 1)
        self.assertIn("No phases: pipelined", self.shown(".drawing")[0].text)
        self.assertEqual(len({part.get_attribute("data-link") for part in self.shown(".drawing .link")}), 32 + 8 + 1)
        self.hover(self.shown(".drawing .vertex")[8])
        self.assertIn("host9", self.find("#card").text)
        self.assertIn("% of 50 Gbit/s", self.find("#card").text)


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
        InBrowser.browser.get("data:text/html,<svg><text y=20>words</text></svg>")
        if not InBrowser.browser.execute_script("return document.querySelector('text').getComputedTextLength()"):
            print("skipped: the browser has no font (Debian: fonts-dejavu-core)")
            return 77
        result = unittest.main(argv=sys.argv[:1] + sys.argv[2:], exit=False, verbosity=2).result
    finally:
        InBrowser.browser.quit()
    return 0 if result.wasSuccessful() else 1


sys.exit(main())
