// Looks at pages through headless Chromium: at a phone's width and at a desk's, light, dark and
// printed. Skipped where there is no Chromium.
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "mezzo/core/error.h"
#include "mezzo/report/page.h"
#include "mezzo/report/text.h"
#include "tests/unit/report/markup.h"
#include "tests/unit/report/support.h"

namespace mezzo::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Measures every frame of the harness page. Letters count where they are shown: not in folded
// parts, and not within what scrolls by itself.
constexpr const char* kScript = R"js(
const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
const luminance = (colour) => numbers(colour).slice(0, 3).map((c) => c / 255)
  .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const contrast = (a, b) => {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
};
const groundOf = (view, element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = view.getComputedStyle(at).backgroundColor;
    if (numbers(colour)[3] !== 0) return colour;
  }
  return 'rgb(255, 255, 255)';
};
const hasLetters = (element) => [...element.childNodes]
  .some((node) => node.nodeType === 3 && node.textContent.trim() !== '');
const overlap = (a, b) => a.left < b.right - 0.5 && b.left < a.right - 0.5 &&
  a.top < b.bottom - 3 && b.top < a.bottom - 3;
const measure = (frame) => {
  const view = frame.contentWindow, page = view.document;
  const result = {name: frame.title, contrast: 99, least: '', outside: [], overlaps: [], tallest: 0,
    width: page.documentElement.scrollWidth, inner: view.innerWidth, letters: 99,
    ground: luminance(groundOf(view, page.body)), labels: 0};
  for (const element of page.body.querySelectorAll('*')) {
    const box = element.getBoundingClientRect();
    if (!hasLetters(element) || box.width < 2 || element.closest('.skip, caption, title, desc')) continue;
    const style = view.getComputedStyle(element);
    const isDrawn = element.tagName === 'text';
    const ratio = contrast(isDrawn ? style.fill : style.color, groundOf(view, element));
    if (ratio < result.contrast) {
      result.contrast = ratio;
      result.least = element.textContent.slice(0, 40);
    }
    if (element.closest('.wide')) continue;
    if (box.left < 0 || box.right > view.innerWidth) result.outside.push(element.textContent);
    if (isDrawn) result.letters = Math.min(result.letters, box.height);
  }
  for (const drawing of page.querySelectorAll('svg[role]')) {
    const boxes = [...drawing.querySelectorAll('text')].map((text) => text.getBoundingClientRect())
      .filter((box) => box.width > 0);
    boxes.forEach((box, i) => boxes.slice(i + 1).forEach((other) => {
      if (overlap(box, other)) result.overlaps.push(drawing.querySelector('title').textContent);
    }));
  }
  for (const figure of page.querySelectorAll('figure')) {
    result.tallest = Math.max(result.tallest, figure.getBoundingClientRect().height);
  }
  return result;
};
onload = () => {
  const results = [...document.querySelectorAll('iframe')].map(measure);
  document.getElementById('result').textContent = JSON.stringify(results);
};
)js";

std::string command_of_browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    if (std::system(concat("command -v ", name, " >/dev/null 2>&1").c_str()) == 0) return name;
  }
  return {};
}

std::string output_of(const std::string& line) {
  FILE* pipe = popen(line.c_str(), "r");
  if (pipe == nullptr) return {};
  std::string output;
  std::array<char, 4096> buffer{};
  for (std::size_t n = 0; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    output.append(buffer.data(), n);
  }
  pclose(pipe);
  return output;
}

struct Frame {
  std::string name{};
  int width = 0;
  std::string html{};
};

class Browser : public testing::Test {
 protected:
  void SetUp() override {
    browser_ = command_of_browser();
    if (browser_.empty()) {
      GTEST_SKIP() << "there is no Chromium here; Debian's package is called chromium";
    }
    folder_ = fs::temp_directory_path() / concat("mezzo_browser_", getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }

  std::string run(const std::string& options, const std::string& file) const {
    return output_of(concat(
        "timeout 120 ", browser_, " --headless --disable-gpu --user-data-dir=", path("profile"),
        geteuid() == 0 ? " --no-sandbox " : " ", options, " file://", path(file), " 2>/dev/null"));
  }

  // What the script of the harness measures in each frame.
  std::vector<Json> measure(const std::vector<Frame>& frames, const std::string& options) const {
    std::string html = "<!DOCTYPE html><meta charset=\"utf-8\"><pre id=\"result\"></pre>";
    for (const Frame& frame : frames) {
      html += concat("<iframe title=\"", frame.name, "\" width=\"", frame.width,
                     "\" height=\"800\" srcdoc=\"", escaped(frame.html), "\"></iframe>");
    }
    write("harness.html", concat(html, "<script>", kScript, "</script>"));
    const std::string dom =
        run(options + " --virtual-time-budget=20000 --dump-dom", "harness.html");
    const std::string begin = "<pre id=\"result\">";
    const std::size_t from = dom.find(begin) + begin.size();
    if (dom.find(begin) == std::string::npos) {
      ADD_FAILURE() << browser_ << " has shown no page: " << dom;
      return {};
    }
    const Json results = Json::parse(dom.substr(from, dom.find("</pre>") - from), nullptr, false);
    EXPECT_EQ(results.size(), frames.size()) << dom.substr(from, 200);
    return results;
  }

  // For an attribute, in which only these two matter.
  static std::string escaped(const std::string& html) {
    std::string result;
    for (const char c : html) {
      if (c == '&') result += "&amp;";
      if (c == '"') result += "&quot;";
      if (c != '&' && c != '"') result += c;
    }
    return result;
  }

  std::string browser_;
  fs::path folder_;
};

// Every kind of page at every width.
std::vector<Frame> frames_of_all_pages() {
  RunData text = large_run(300, 12);
  text.has_accuracy = false;
  text.name = "a-network-with-a-very-long-name-that-has-no-place-to-break";
  for (int i = 1; i < 9; ++i) text.evaluations.push_back({.step = 30 * i, .loss = 1e-6 * i});
  RunData pictures = large_run(1, 1);
  pictures.first_batch.assign(
      32, {.png = {}, .width = 32, .height = 32, .label = "Airplane 70 %, Boot 30 %"});
  pictures.batch_size = 64;
  RunData running = example_run(3);
  running.is_running = true;
  const std::vector<std::pair<std::string, std::string>> pages{
      {"one", to_html({.title = "resnet50 O2/f16 on shapes", .runs = {large_run(100'000, 60)}})},
      {"several", to_html({.title = "compare", .runs = {text, large_run(30, 6), example_run(3)}})},
      {"pictures", to_html({.title = std::string(90, 'x'), .runs = {pictures}})},
      {"running", to_html({.title = "t", .runs = {running}})}};
  std::vector<Frame> frames;
  for (const auto& [name, html] : pages) {
    for (const int width : {360, 680, 1280}) {
      frames.push_back({concat(name, " at ", width), width, html});
    }
  }
  return frames;
}

void expect_readable(const Json& page) {
  SCOPED_TRACE(page["name"].get<std::string>());
  EXPECT_LE(page["width"], page["inner"]) << "the page scrolls sideways";
  EXPECT_GE(page["contrast"], 4.5) << page["least"];
  EXPECT_EQ(page["outside"], Json::array()) << "texts beyond the page's edges";
  EXPECT_EQ(page["overlaps"], Json::array()) << "letters over letters in these charts";
  EXPECT_GE(page["letters"], 11) << "the height of the smallest letters in charts";
  EXPECT_LT(page["tallest"], 1000) << "more than a printed page has";
}

TEST_F(Browser, PagesFitEveryWidthInLightAndDark) {
  const std::vector<Frame> frames = frames_of_all_pages();
  for (const bool is_dark : {false, true}) {
    SCOPED_TRACE(is_dark ? "dark" : "light");
    for (const Json& page :
         measure(frames, concat("--blink-settings=preferredColorScheme=", is_dark ? 0 : 1))) {
      expect_readable(page);
      EXPECT_EQ(page["ground"] < 0.2, is_dark);
    }
  }
}

// The measurements can fail.
TEST_F(Browser, TheHarnessFindsFaults) {
  const std::string bad =
      "<style>body{margin:0}</style><p style='color:#999;background:#fff;width:500px'>grey letters"
      "<svg role='img' width='300' height='50'><title>chart</title><text x='5' y='20' "
      "font-size='8'>ab</text><text x='7' y='20'>cd</text></svg><figure style='height:1200px'>";
  const std::vector<Json> pages = measure({{"bad", 360, bad}}, "");
  ASSERT_EQ(pages.size(), 1U);
  EXPECT_GT(pages[0]["width"], pages[0]["inner"]);
  EXPECT_LT(pages[0]["contrast"], 4.5);
  EXPECT_EQ(pages[0]["outside"].size(), 1U);
  EXPECT_EQ(pages[0]["overlaps"], Json::array({"chart"}));
  EXPECT_LT(pages[0]["letters"], 11);
  EXPECT_GE(pages[0]["tallest"], 1000);
}

TEST_F(Browser, APageCanBePrinted) {
  write("page.html", to_html({.title = "t", .runs = {large_run(300, 60)}}));
  run("--no-pdf-header-footer --print-to-pdf=" + path("page.pdf"), "page.html");
  std::ifstream file(path("page.pdf"), std::ios::binary);
  const std::string pdf(std::istreambuf_iterator<char>(file), {});
  EXPECT_TRUE(pdf.starts_with("%PDF-")) << pdf.size();
  EXPECT_GE(count_of_text(pdf, "/Type /Page\n"), 3U);
}

}  // namespace
}  // namespace mezzo::report
