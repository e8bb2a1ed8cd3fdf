// Tests mezzo data, --bad-images and the mixing options.
#include <algorithm>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/data/decode.h"
#include "mezzo/data/image.h"
#include "mezzo/io/png.h"
#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

class DataCommand : public Command {
 protected:
  // Writes a PNG picture with the bytes `first`, `first` + 1, ...
  void write_picture(const std::string& name, std::int64_t height, std::int64_t width,
                     int first) const {
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(3 * height * width));
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      pixels[i] = static_cast<std::uint8_t>(static_cast<std::size_t>(first) + i);
    }
    write_bytes(name, io::encode_png(pixels, {3, height, width}));
  }

  void write_bytes(const std::string& name, const std::vector<std::byte>& bytes) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream file(folder_ / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }

  // Writes two classes with eight training and four test pictures; `bad` of the training ones are
  // invalid.
  void write_images(int bad) const {
    for (int i = 0; i < 8; ++i) {
      const std::string name = concat("set/train/", i % 2 == 0 ? "cat" : "dog", "/", i, ".png");
      if (i < bad) {
        write_bytes(name, std::vector<std::byte>(9, std::byte{7}));
      } else {
        write_picture(name, 10 + i, 20, i);
      }
    }
    for (int i = 0; i < 4; ++i) {
      write_picture(concat("set/val/", i % 2 == 0 ? "cat" : "dog", "/", i, ".png"), 12, 12, i);
    }
  }

  std::string spec() const { return "images:" + path("set"); }
};

TEST_F(DataCommand, SaysWhatASetHolds) {
  write_images(2);
  const Outcome outcome = run("data " + spec() + " --json " + path("log"));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("class  train  test\n"), HasSubstr("cat        4     2\n"),
                    HasSubstr("all        8     4\n"), HasSubstr("train: 8 of 8 images examined"),
                    HasSubstr("heights 12 to 17, median 14; widths 20; 3 channels; 6 PNG"),
                    HasSubstr("data::Normalization{.mean = {0."),
                    HasSubstr("data::Normalization{.mean = {0.4850F, 0.4560F, 0.4060F}"),
                    HasSubstr("unreadable     2 of the examined images:"),
                    HasSubstr("cat/0.png (image 0): neither a JPEG nor a PNG file")));
  const std::vector<Json> events = read_events("log");
  ASSERT_EQ(events.size(), 2U);
  const Json& train = events[0];
  EXPECT_EQ(train["event"], "data");
  EXPECT_EQ(train["split"], "train");
  EXPECT_EQ(train["images"], 8);
  EXPECT_EQ(train["classes"],
            Json::parse(R"([{"name":"cat","images":4},{"name":"dog","images":4}])"));
  EXPECT_EQ(train["heights"], Json::parse(R"({"min":12,"median":14,"max":17})"));
  EXPECT_EQ(train["formats"], Json::parse(R"({"PNG":6})"));
  EXPECT_EQ(train["mean"].size(), 3U);
  EXPECT_EQ(train["unreadable"].size(), 2U);
  EXPECT_EQ(events[1]["split"], "test");
  EXPECT_TRUE(events[1]["unreadable"].empty());
}

TEST_F(DataCommand, KnowsEveryKindOfSetAndItsLimit) {
  write_cifar10(folder_);
  for (const std::string& set :
       {std::string("digits"), std::string("shapes"), "cifar10:" + path("")}) {
    const Outcome outcome = run("data " + set + " --limit 10 --split test --threads 2");
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_THAT(outcome.output, HasSubstr("test: ")) << set;
    EXPECT_THAT(outcome.output, Not(HasSubstr("train: "))) << set;
    EXPECT_THAT(outcome.output, HasSubstr("data::Normalization{")) << set;
  }
  EXPECT_THAT(run("data shapes --limit 10 --split train").output,
              AllOf(HasSubstr("circle"), HasSubstr("train: 10 of 10000 images examined"),
                    HasSubstr("heights 32; widths 32; 3 channels")));
}

data::Image read_png(const std::string& path) { return data::read_image_file(path, path); }

TEST_F(DataCommand, DrawsImagesAsStoredAndAsSeen) {
  write_images(1);
  const std::string sheet = path("sheet.png");
  const Outcome outcome =
      run("data " + spec() + " --out " + sheet + " --pictures 8 --image-size 16 --seed 3");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("each row as stored, and below it as the network sees "
                                        "it; classes by column: cat, dog"));
  // A row of eight cells of 112 pixels, and one below; two pixels around each.
  const data::Image picture = read_png(sheet);
  EXPECT_EQ(picture.shape, Shape({3, 2 * 114 + 2, 8 * 114 + 2}));
  const std::string before = read_text("sheet.png");
  const std::string same = "data " + spec() + " --out " + sheet + " --pictures 8 --image-size 16";
  ASSERT_EQ(run(same + " --seed 3 --threads 1").status, 0);
  EXPECT_EQ(read_text("sheet.png"), before) << "the same for any number of threads";
  ASSERT_EQ(run(same + " --seed 4").status, 0);
  EXPECT_NE(read_text("sheet.png"), before) << "varied otherwise";
  ASSERT_EQ(run("data digits --limit 5 --out " + sheet + " --pictures 21").status, 0);
  // Never augmented: each image appears once, in a column for each class.
  EXPECT_EQ(read_png(sheet).shape, Shape({3, 3 * 114 + 2, 10 * 114 + 2}));
}

constexpr std::int64_t kCell = 114;  // distance between neighbouring pictures of a sheet

// Whether the cell has the colour of the space between pictures.
bool is_empty_cell(const data::Image& sheet, std::int64_t top, std::int64_t left) {
  const std::int64_t channels = sheet.shape[0];
  for (std::int64_t y = top; y < top + kCell - 2; ++y) {
    const std::uint8_t* row = sheet.view().row(y) + left * channels;
    const auto is_between = [](std::uint8_t byte) { return byte == 40; };
    if (!std::all_of(row, row + (kCell - 2) * channels, is_between)) return false;
  }
  return true;
}

// The number of cells of a sheet that hold a picture.
std::int64_t pictures_on(const data::Image& sheet) {
  std::int64_t count = 0;
  for (std::int64_t top = 2; top + kCell <= sheet.shape[1]; top += kCell) {
    for (std::int64_t left = 2; left + kCell <= sheet.shape[2]; left += kCell) {
      count += is_empty_cell(sheet, top, left) ? 0 : 1;
    }
  }
  return count;
}

// For ten classes, for two of equal size, and for two of which one is small.
TEST_F(DataCommand, DrawsAsManyPicturesAsAskedFor) {
  write_images(0);
  const std::string sheet = path("sheet.png");
  for (const int pictures : {1, 3, 10, 11, 21}) {
    ASSERT_EQ(run(concat("data digits --limit 5 --out ", sheet, " --pictures ", pictures)).status,
              0);
    EXPECT_EQ(pictures_on(read_png(sheet)), pictures);
  }
  for (int i = 0; i < 3; ++i) fs::remove(folder_ / concat("set/train/dog/", 2 * i + 1, ".png"));
  for (const int pictures : {1, 3, 4, 5, 9}) {
    ASSERT_EQ(
        run(concat("data ", spec(), " --out ", sheet, " --image-size 16 --pictures ", pictures))
            .status,
        0);
    const data::Image drawn = read_png(sheet);
    EXPECT_EQ(pictures_on(drawn), 2 * std::min(pictures, 5)) << "as stored, and as seen";
  }
}

TEST_F(DataCommand, RefusesWhatItCannotDo) {
  write_images(0);
  struct Case {
    std::string arguments;
    const char* message;
  };
  const std::string file = path("set/train/cat/0.png");
  const std::string before = read_text("set/train/cat/0.png");
  for (const Case& wrong : {
           Case{"data", "spec is required"},
           Case{"data mnits", "no such data set: `mnits`"},
           Case{"data images:/no/such/folder", "/no/such/folder"},
           Case{"data digits --split val", "`val`. Known splits are train, test and both"},
           Case{"data digits --limit 0", "[--limit] must be at least 1: 0"},
           Case{"data digits --pictures 0 --out " + path("x"), "from 1 to 1024: 0"},
           Case{"data digits --pictures 5", "[--out] is missing"},
           Case{"data digits --seed 5", "[--out] is missing"},
           Case{"data digits --out " + path("x") + " --image-size 5000", "image size"},
           Case{"data digits --out /no/such/folder/x.png", "/no/such/folder/x.png"},
           Case{"data digits --threads 0", "from 1 to 1024: 0"},
           Case{"data digits --json " + path("x") + " --out " + path("./x"),
                "is the file of --json"},
           Case{"data " + spec() + " --out " + file, "a file of --data"},
           Case{"data " + spec() + " --out " + path("set/train/cat/new.png"), "a file of --data"},
       }) {
    const Outcome outcome = run(wrong.arguments);
    EXPECT_EQ(outcome.status, 2) << wrong.arguments << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr(wrong.message)) << wrong.arguments;
    EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1) << outcome.errors;
    EXPECT_FALSE(fs::exists(folder_ / "x")) << wrong.arguments;
  }
  EXPECT_EQ(read_text("set/train/cat/0.png"), before);
}

TEST_F(DataCommand, BadImagesEndARunOrAreLeftOut) {
  write_images(2);
  const std::string train =
      "train --model mlp --epochs 2 --batch-size 3 --image-size 8 --data " + spec();
  const Outcome stopped = run(train);
  EXPECT_NE(stopped.status, 0);
  EXPECT_THAT(stopped.errors, HasSubstr("neither a JPEG nor a PNG file"));
  const Outcome outcome =
      run(train + " --bad-images skip --save " + path("w") + " --json " + path("log"));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("train: 2 of 8 images cannot be read: " +
                                        path("set/train/cat/0.png") + " (image 0), "));
  EXPECT_THAT(outcome.errors, HasSubstr("They are skipped"));
  const std::vector<Json> events = read_events("log");
  EXPECT_EQ(events[0]["bad_images"], "skip");
  ASSERT_EQ(events_of(events, "left_out").size(), 2U);
  EXPECT_EQ(events_of(events, "left_out")[0]["split"], "train");
  EXPECT_EQ(steps_of(events).size(), 4U) << "two steps of three images in each epoch";
  // The same run as on a folder without these images.
  fs::remove(folder_ / "set/train/cat/0.png");
  fs::remove(folder_ / "set/train/dog/1.png");
  ASSERT_EQ(run(train + " --save " + path("clean")).status, 0);
  EXPECT_EQ(read_text("w"), read_text("clean"));
}

// A run that meets an unreadable image after some steps keeps them, as if its evaluation had
// failed.
TEST_F(DataCommand, AnUnreadableImageLosesNoSteps) {
  write_images(0);
  write_bytes("set/train/dog/7.png", std::vector<std::byte>(9, std::byte{7}));
  const std::string train =
      "train --model mlp --batch-size 2 --image-size 8 --no-shuffle --no-augment --data " + spec();
  const std::string folder = " --checkpoint-dir " + path("run") + " --checkpoint-every 100";
  const Outcome broken = run(train + folder + " --save " + path("w") + " --report " + path("page") +
                             " --json " + path("log"));
  EXPECT_EQ(broken.status, 1);
  EXPECT_THAT(broken.errors,
              AllOf(HasSubstr("neither a JPEG nor a PNG file"), HasSubstr("--bad-images skip")));
  const std::size_t steps = steps_of(read_events("log")).size();
  ASSERT_GT(steps, 0U);
  EXPECT_THAT(read_text("page"), AllOf(HasSubstr("First batch"), HasSubstr("</html>")));
  ASSERT_EQ(run(train + " --steps " + std::to_string(steps) + " --save " + path("short")).status,
            0);
  EXPECT_EQ(read_text("w"), read_text("short"));
  const Outcome skipping = run(train + folder + " --resume --bad-images skip");
  EXPECT_EQ(skipping.status, 2);
  EXPECT_THAT(skipping.errors, HasSubstr("Their number must stay the same: replace the file"));
  write_picture("set/train/dog/7.png", 12, 12, 7);
  ASSERT_EQ(run(train + folder + " --resume --save " + path("resumed")).status, 0);
  ASSERT_EQ(run(train + " --save " + path("whole")).status, 0);
  EXPECT_EQ(read_text("resumed"), read_text("whole"));
}

TEST_F(DataCommand, AnUnreadableImageAtOnceIsWrongInput) {
  write_images(8);
  const Outcome outcome = run("train --model mlp --batch-size 2 --image-size 8 --save " +
                              path("w") + " --checkpoint-dir " + path("run") + " --data " + spec());
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("--bad-images skip"));
  EXPECT_FALSE(fs::exists(folder_ / "w"));
}

TEST_F(DataCommand, AClassThatCannotBeReadIsOneWithoutPictures) {
  write_images(0);
  for (const char* name : {"0", "2", "4", "6"}) {
    write_bytes(concat("set/train/cat/", name, ".png"), std::vector<std::byte>(9, std::byte{7}));
  }
  const std::string train =
      "train --model mlp --batch-size 2 --image-size 8 --steps 1 --bad-images skip --data " +
      spec();
  const Outcome lost = run(train);
  EXPECT_EQ(lost.status, 2);
  EXPECT_THAT(lost.errors, HasSubstr("[images] no image can be read of 1 of 2 classes: cat. "));
  write_images(0);
  for (const char* name : {"0", "2"}) {
    write_bytes(concat("set/val/cat/", name, ".png"), std::vector<std::byte>(9, std::byte{7}));
  }
  const Outcome warned = run(train);
  EXPECT_EQ(warned.status, 0);
  EXPECT_THAT(warned.errors, HasSubstr("[images] no image can be read of 1 of 2 classes: cat\n"));
}

TEST_F(DataCommand, EvaluationBalancesTheImagesThatWereTrained) {
  write_images(3);
  const std::string usual =
      " --model mlp --batch-size 2 --image-size 8 --bad-images skip --class-weights balanced "
      "--data " +
      spec();
  ASSERT_EQ(run("train" + usual + " --save " + path("w") + " --json " + path("trained")).status, 0);
  ASSERT_EQ(run("eval" + usual + " --weights " + path("w") + " --json " + path("evaluated")).status,
            0);
  const Json weights = read_events("trained")[0]["class_weights"];
  EXPECT_NE(weights[0], weights[1]);
  EXPECT_EQ(read_events("evaluated")[0]["class_weights"], weights);
}

TEST_F(DataCommand, ClassWeightsLetSomeImageOfEachSetCount) {
  write_images(0);
  fs::remove(folder_ / "set/val/dog/1.png");
  fs::remove(folder_ / "set/val/dog/3.png");
  const std::string usual =
      " --model mlp --batch-size 2 --image-size 8 --class-weights 0,1 --data " + spec();
  ASSERT_EQ(run("train --model mlp --batch-size 2 --image-size 8 --steps 1 --save " + path("w") +
                " --data " + spec())
                .status,
            0);
  for (const std::string& arguments :
       {"train" + usual, "compare" + usual, "eval --weights " + path("w") + usual}) {
    const Outcome outcome = run(arguments + " --json " + path("log"));
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_THAT(outcome.errors, HasSubstr("[--class-weights] no test image would count"))
        << arguments;
    EXPECT_FALSE(fs::exists(folder_ / "log")) << arguments;
  }
}

// A name may contain characters that move a terminal's cursor or colour its text.
TEST_F(DataCommand, NamesOfFilesStayOnOneLine) {
  write_images(0);
  fs::rename(folder_ / "set/train/dog", folder_ / "set/train/do\033g\n");
  fs::rename(folder_ / "set/val/dog", folder_ / "set/val/do\033g\n");
  write_bytes("set/train/do\033g\n/1.png", std::vector<std::byte>(9, std::byte{7}));
  const Outcome shown = run("data " + spec() + " --out " + path("sheet.png"));
  const Outcome trained =
      run("train --model mlp --steps 1 --batch-size 2 --image-size 8 --bad-images skip --data " +
          spec());
  for (const Outcome* outcome : {&shown, &trained}) {
    EXPECT_EQ(outcome->status, 0) << outcome->errors;
    EXPECT_THAT(outcome->output, AllOf(HasSubstr("do g "), Not(HasSubstr("\033"))));
  }
}

// Labels of mixed images are probabilities of all classes.
TEST_F(DataCommand, AReportSaysWhatMixedImagesShow) {
  write_images(0);
  const std::string train =
      "train --model mlp --steps 1 --batch-size 4 --image-size 8 --class-weights 1,2 "
      "--label-smoothing 0.1 --bad-images skip --report " +
      path("page") + " --data " + spec();
  for (const char* mix : {" --mixup 1", " --cutmix 1", " --mixup 1 --cutmix 1"}) {
    const Outcome outcome = run(train + mix);
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    const std::string page = read_text("page");
    EXPECT_THAT(page, AllOf(HasSubstr("All 4 images"), HasSubstr(" %</figcaption>"),
                            HasSubstr("<dt>class weights</dt>\n<dd>1, 2</dd>"),
                            HasSubstr("<dt>label smoothing</dt>\n<dd>0.1</dd>")));
    EXPECT_THAT(page, AnyOf(HasSubstr("<dt>mixup</dt>\n<dd>1</dd>"),
                            HasSubstr("<dt>cutmix</dt>\n<dd>1</dd>")));
  }
  // With a single class there is nothing to mix with.
  fs::remove_all(folder_ / "set/train/dog");
  fs::remove_all(folder_ / "set/val/dog");
  write_bytes("set/train/cat/0.png", std::vector<std::byte>(9, std::byte{7}));
  ASSERT_EQ(run("train --model mlp --steps 1 --batch-size 2 --image-size 8 --bad-images skip "
                "--mixup 1 --report " +
                path("page") + " --data " + spec())
                .status,
            0);
  EXPECT_THAT(read_text("page"),
              AllOf(HasSubstr("All 2 images"), HasSubstr("<figcaption>cat</figcaption>"),
                    HasSubstr("<dt>left out (train)</dt>\n<dd>1 of 4 images")));
}

TEST_F(DataCommand, SkippedImagesAndMixedOnesResumeBitForBit) {
  write_images(2);
  const std::string train =
      "train --model mlp --epochs 4 --batch-size 3 --image-size 8 --bad-images skip --mixup 0.2 "
      "--cutmix 1 --data " +
      spec() + " --workers ";
  ASSERT_EQ(run(train + "0 --save " + path("whole")).status, 0);
  const std::string folder = " --checkpoint-dir " + path("run") + " --checkpoint-every 1 ";
  ASSERT_EQ(run(train + "2 --steps 3" + folder).status, 0);
  ASSERT_EQ(run(train + "3 --resume" + folder + "--save " + path("resumed")).status, 0);
  EXPECT_EQ(read_text("whole"), read_text("resumed"));
}

TEST_F(DataCommand, MixingChangesARunAndIsAskedOfOneThatGoesOn) {
  const std::string train = "train --model mlp --steps 2 ";
  ASSERT_EQ(run(train + "--save " + path("plain")).status, 0);
  ASSERT_EQ(run(train + "--mixup 0.4 --save " + path("mixed")).status, 0);
  EXPECT_NE(read_text("plain"), read_text("mixed"));
  ASSERT_EQ(run(train + "--mixup 0.4 --graph --save " + path("graph")).status, 0);
  EXPECT_EQ(read_text("graph"), read_text("mixed"));
  const std::string folder = " --checkpoint-dir " + path("run");
  ASSERT_EQ(run(train + "--mixup 0.4" + folder).status, 0);
  const Outcome outcome = run("train --model mlp --steps 4 --resume" + folder);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("the run was started with --mixup 0.4, not 0"));
  EXPECT_THAT(run("train --mixup -1").errors,
              HasSubstr("[--mixup] must be 0 or more, and finite in f32: -1"));
  EXPECT_THAT(run("train --cutmix inf").errors,
              HasSubstr("[--cutmix] must be 0 or more, and finite in f32: inf"));
  EXPECT_THAT(run("train --bad-images keep").errors,
              HasSubstr("[--bad-images] `keep` is neither error nor skip"));
}

}  // namespace
}  // namespace mezzo::cli_tests
