#include "base/timing.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/forked_test.h"

namespace ingot {
namespace {

class Timings : public testing::Test {
 protected:
  ~Timings() override {
    std::filesystem::remove(path);
    std::filesystem::remove(path + ".lock");
  }
  void put(const std::string& text) const { std::ofstream(path, std::ios::binary) << text; }
  std::string text() const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string path = testing::TempDir() + "ingot_timings_" + std::to_string(::getpid());
};

TEST_F(Timings, AreAddedToTheFile) {
  EXPECT_TRUE(read_timings(path).empty());
  const std::vector<Timing> first = {{"H200, L 1", "b", "l 2"}, {"H200, L 1", "a", "l 1"}};
  add_to_file(path, first);
  EXPECT_EQ(text(), "ingot timings 1\nH200, L 1\ta\tl 1\nH200, L 1\tb\tl 2\n");
  // Those of other machines and versions stay; the later one of a problem counts.
  const std::vector<Timing> more = {{"H100, L 1", "a", "l 7"}, {"H200, L 1", "b", "own 0"}, {"H200, L 2", "a", "l 3"}};
  add_to_file(path, more);
  EXPECT_EQ(text(), "ingot timings 1\nH100, L 1\ta\tl 7\nH200, L 1\ta\tl 1\nH200, L 1\tb\town 0\nH200, L 2\ta\tl 3\n");
  EXPECT_EQ(read_timings(path).size(), 4u);
  add_to_file(path, {});
  EXPECT_EQ(read_timings(path).size(), 4u);
}

TEST_F(Timings, OtherFilesStayAsTheyAre) {
  const std::vector<Timing> one = {{"a", "b", "c"}};
  std::string long_one(1001, 'x');
  for (const auto& [bad, why] : std::vector<std::pair<std::string, std::string>>{{"my notes\n", "it does not start as one"},
                                                                                 {"ingot timings 2\n", "it does not start as one"},
                                                                                 {"ingot timings 1\na\tb\tc\na\tb\n", "line 3 is damaged"},
                                                                                 {"ingot timings 1\na\tb\tc\td\n", "line 2 is damaged"},
                                                                                 {"ingot timings 1\na\tb\tc", "line 2 is damaged"},
                                                                                 {"ingot timings 1\n\n", "line 2 is damaged"},
                                                                                 {"ingot timings 1\na\tb\t" + long_one + "\n", "line 2 is damaged"},
                                                                                 {"ingot timings 1\na\tb\tc\x01\n", "line 2 is damaged"}}) {
    put(bad);
    try {
      add_to_file(path, one);
      ADD_FAILURE() << bad;
    } catch (const Error& e) {
      EXPECT_EQ(e.code, Code::format);
      EXPECT_EQ(e.message, path + ": this is not a timing cache: " + why);
    }
    EXPECT_EQ(text(), bad);
  }
  put("");
  EXPECT_TRUE(read_timings(path).empty());
}

TEST_F(Timings, OfOtherUsersAreNotUsed) {
  const std::vector<Timing> one = {{"a", "b", "c"}};
  const mode_t before = ::umask(0);
  add_to_file(path, one);
  ::umask(before);
  std::string refused;
  EXPECT_EQ(read_timings(path, &refused), one);
  EXPECT_EQ(refused, "");
  ASSERT_EQ(::chmod(path.c_str(), 0666), 0);
  EXPECT_TRUE(read_timings(path, &refused).empty());
  EXPECT_EQ(refused, "other users can write to " + path + ", so it is not used; `chmod go-w` it if you know what is in it, or delete it");
  EXPECT_THROW(add_to_file(path, one), Error);
}

TEST_F(Timings, OfSeveralWritersAreAllThere) {
  constexpr int writers = 4, each = 25;
  in_processes(writers, [&](unsigned w) {
    for (int n = 0; n < each; ++n) {
      const Timing t{"machine " + std::to_string(w), "problem " + std::to_string(n), "choice"};
      add_to_file(path, {&t, 1});
    }
  });
  EXPECT_EQ(read_timings(path).size(), size_t{writers * each});
}

}  // namespace
}  // namespace ingot
