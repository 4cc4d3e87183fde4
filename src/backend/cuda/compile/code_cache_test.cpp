#include "backend/cuda/compile/code_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "base/forked_test.h"

namespace ingot::backend::cuda {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes(std::string_view text) {
  auto* p = reinterpret_cast<const std::byte*>(text.data());
  return {p, p + text.size()};
}

class cuda_code_cache : public testing::Test {
 protected:
  cuda_code_cache() { std::filesystem::remove_all(folder); }
  ~cuda_code_cache() override { std::filesystem::remove_all(folder); }
  std::string only_file() const { return std::filesystem::directory_iterator(folder)->path(); }
  const std::string folder = testing::TempDir() + "ingot_code_cache_test_" + std::to_string(::getpid());
  const Bytes key = bytes("key"), code = bytes("some code");
};

TEST_F(cuda_code_cache, damaged_entries_are_not_used) {
  CodeCache cache(folder);
  EXPECT_FALSE(cache.find(key));
  cache.put(key, code);
  EXPECT_EQ(cache.find(key), code);
  EXPECT_FALSE(cache.find(bytes("another")));
  std::string file = only_file();
  for (long at : {0L, 20L, 50L, 75L}) {
    cache.put(key, code);
    std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(at);
    f.put('?');
    f.close();
    EXPECT_FALSE(cache.find(key)) << at;
  }
  std::filesystem::resize_file(file, 10);
  EXPECT_FALSE(cache.find(key));
}

TEST_F(cuda_code_cache, a_folder_that_cannot_be_made_is_told) {
  CodeCache cache("/proc/nothing/here");
  EXPECT_EQ(cache.problem().find("compiled code is not kept: the folder /proc/nothing/here cannot be made: "), 0u) << cache.problem();
  cache.put(key, code);
  EXPECT_FALSE(cache.find(key));
}

TEST_F(cuda_code_cache, what_others_could_have_written_is_not_used) {
  const mode_t before = ::umask(0);
  CodeCache cache(folder);
  cache.put(key, code);
  ::umask(before);
  // Everyone may write according to the umask; the cache's folder does not allow it.
  struct stat status;
  ASSERT_EQ(::stat(folder.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat(only_file().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0644u);
  EXPECT_EQ(CodeCache(folder).find(key), code);

  for (mode_t others : {mode_t{0664}, mode_t{0646}}) {
    ASSERT_EQ(::chmod(only_file().c_str(), others), 0);
    EXPECT_FALSE(CodeCache(folder).find(key));
  }
  ASSERT_EQ(::chmod(only_file().c_str(), 0644), 0);
  for (mode_t others : {mode_t{0770}, mode_t{0777}, mode_t{01777}}) {
    ASSERT_EQ(::chmod(folder.c_str(), others), 0);
    CodeCache open(folder);
    EXPECT_NE(open.problem().find("other users can write to " + folder), std::string::npos) << open.problem();
    EXPECT_FALSE(open.find(key));
    open.put(bytes("more"), code);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  }
  ASSERT_EQ(::chmod(folder.c_str(), 0700), 0);
  EXPECT_EQ(CodeCache(folder).find(key), code);
  if (::geteuid() != 0) return;  // only root can give files away
  ASSERT_EQ(::chown(only_file().c_str(), 12345, 12345), 0);
  EXPECT_FALSE(CodeCache(folder).find(key));
  ASSERT_EQ(::chown(only_file().c_str(), 0, 0), 0);
  ASSERT_EQ(::chown(folder.c_str(), 12345, 12345), 0);
  EXPECT_NE(CodeCache(folder).problem().find("belongs to another user (number 12345)"), std::string::npos);
}

// An entry's content follows from its key, so that a reader can check it.
Bytes entry(unsigned k) {
  std::minstd_rand random(k + 1);
  Bytes out(1000 + 50000 * (k % 3));
  for (std::byte& b : out) b = static_cast<std::byte>(random());
  return out;
}

TEST_F(cuda_code_cache, killed_writers_leave_no_entry_that_is_read_wrongly) {
  constexpr unsigned keys = 4;
  const int kills = std::getenv("INGOT_TEST_ALL") != nullptr ? 10000 : 1000;
  std::vector<Bytes> right;
  for (unsigned k = 0; k < keys; ++k) right.push_back(entry(k));
  std::minstd_rand random(7);
  int found = 0, in_the_middle = 0, longest = 3000;  // microseconds
  for (int kill = 0; kill < kills; ++kill) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      CodeCache cache(folder);
      for (unsigned n = 0;; ++n) {
        try {
          cache.put(bytes(std::to_string(n % keys)), right[n % keys]);
        } catch (...) {
          ::_exit(1);
        }
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200 + random() % static_cast<unsigned>(longest)));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself: " << status;
    CodeCache cache(folder);
    for (unsigned k = 0; k < keys; ++k) {
      auto is = cache.find(bytes(std::to_string(k)));
      ASSERT_TRUE(!is || *is == right[k]) << "entry " << k << " after kill " << kill;
      found += is.has_value();
    }
    const auto files = std::distance(std::filesystem::directory_iterator(folder), {});
    in_the_middle += files > keys;
    if (files > 100) std::filesystem::remove_all(folder);
    if (kill % 100 == 99 && found <= kill + 1 && longest < 100000) longest *= 2;  // a busy machine lets the writers do nothing
  }
  EXPECT_GT(found, kills) << "nothing was written before the kills";
  EXPECT_GT(in_the_middle, 0) << "no kill met a writer in the middle of a file";
}

TEST_F(cuda_code_cache, several_writers_lose_nothing) {
  constexpr unsigned writers = 4, each = 20;
  in_processes(writers, [&](unsigned w) {
    CodeCache cache(folder);
    for (unsigned n = 0; n < each; ++n) {
      cache.put(bytes(std::to_string(w) + "." + std::to_string(n)), entry(w));
      cache.put(key, code);
    }
  });
  CodeCache cache(folder);
  for (unsigned w = 0; w < writers; ++w) {
    for (unsigned n = 0; n < each; ++n) EXPECT_EQ(cache.find(bytes(std::to_string(w) + "." + std::to_string(n))), entry(w));
  }
  EXPECT_EQ(cache.find(key), code);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), writers * each + 1);
}

}  // namespace
}  // namespace ingot::backend::cuda
