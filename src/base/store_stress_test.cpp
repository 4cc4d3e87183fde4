// Many processes in one folder of a Store: killed at any time, sixteen at once, and on a disk that is full. INGOT_TEST_ALL=1: 10,000 kills.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>

#include "base/error.h"
#include "base/own_file.h"
#include "base/store.h"
#include "base/store_folder_test.h"

namespace ingot {
namespace {

// What stands under a key is one of these two, so whatever is found can be judged.
constexpr int keys = 24;
std::string key_of(int i) { return "key " + std::to_string(i); }
std::string value_of(int i, bool second) {
  std::minstd_rand random(static_cast<unsigned>(2 * i + second + 1));
  std::string value(static_cast<size_t>(500 + random() % 20'000), '\0');
  for (char& c : value) c = static_cast<char>(random());
  return value;
}
bool is_right(int i, const std::optional<std::vector<std::byte>>& found) {
  if (!found) return true;
  auto equals = [&](const std::string& value) { return std::ranges::equal(*found, bytes_of(value)); };
  return equals(value_of(i, false)) || equals(value_of(i, true));
}

pid_t start(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      ::_exit(body() ? 0 : 1);
    } catch (...) {
      ::_exit(2);
    }
  }
  return child;
}

int end_of(pid_t child) {
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// False where another process had the lock for the four seconds that a writer waits for it, as happens on a machine with much else to do.
bool had_the_lock(const std::function<void()>& write) {
  try {
    write();
  } catch (const Error& e) {
    if (e.message.find("another process is writing there") == std::string::npos) throw;
    return false;
  }
  return true;
}

// Reads and writes entries at random; false as soon as one is wrong.
bool work(const std::filesystem::path& folder, uint64_t limit, unsigned seed, int rounds) {
  const Store store(folder, limit);
  std::minstd_rand random(seed);
  for (int n = 0; n != rounds; ++n) {
    const int i = static_cast<int>(random() % keys);
    if (!is_right(i, store.find(key_of(i)))) return false;
    if (random() % 2 == 0) had_the_lock([&] { store.put(key_of(i), bytes_of(value_of(i, random() % 2 == 0))); });
    if (random() % 64 == 0) had_the_lock([&] { store.prune(limit); });
  }
  return true;
}

// All bytes in the folder, while nobody writes.
uint64_t total_in(const std::filesystem::path& folder) {
  auto lock = std::make_unique<FileLock>(folder / "entries");
  for (int n = 0; n < 30 && lock->state() == FileLock::State::busy; ++n) lock = std::make_unique<FileLock>(folder / "entries");
  EXPECT_EQ(lock->state(), FileLock::State::held);
  uint64_t total = 0;
  for (const auto& e : std::filesystem::directory_iterator(folder)) total += e.path().filename() == "entries.lock" ? 0 : e.file_size();
  return total;
}

size_t damaged_in(const Store& store) {
  size_t damaged = 0;
  for (const Store::Entry& e : store.entries()) damaged += store.damage(e.name).has_value();
  return damaged;
}

TEST(Store, processes_that_are_killed) {
  Folder folder;
  constexpr uint64_t limit = 150'000;  // half of the entries
  const Store store(folder.path, limit);
  const int kills = std::getenv("INGOT_TEST_ALL") != nullptr ? 10'000 : 150;
  std::minstd_rand random(7);
  std::vector<pid_t> children;
  size_t max_left = 0;
  for (int n = 0; n < kills; ++n) {
    while (children.size() < 3) children.push_back(start([&, seed = static_cast<unsigned>(random())] { return work(folder.path, limit, seed, -1); }));
    ::usleep(static_cast<useconds_t>(random() % 6000));
    const size_t victim = random() % children.size();
    ::kill(children[victim], SIGKILL);
    ASSERT_EQ(end_of(children[victim]), -SIGKILL) << "a wrong entry was taken, or an error came";
    children.erase(children.begin() + static_cast<std::ptrdiff_t>(victim));
    const int i = static_cast<int>(random() % keys);
    ASSERT_TRUE(is_right(i, store.find(key_of(i))));
    if (n % 10 != 0) continue;
    ASSERT_EQ(damaged_in(store), 0u);
    ASSERT_LE(total_in(folder.path), limit + 21'000) << "more than the limit and one file of a writer that was killed just now";
    size_t left = 0;
    for (const auto& e : std::filesystem::directory_iterator(folder.path)) left += e.path().extension() == ".tmp";
    max_left = std::max(max_left, left);
  }
  for (pid_t child : children) ::kill(child, SIGKILL), end_of(child);
  EXPECT_LE(max_left, 3u);
  store.put("last", bytes_of("x"));  // no lock is left behind
  for (const auto& e : std::filesystem::directory_iterator(folder.path)) EXPECT_NE(e.path().extension(), ".tmp") << e.path();
  EXPECT_EQ(damaged_in(store), 0u);
  EXPECT_LE(total_in(folder.path), limit);
}

TEST(Store, sixteen_processes_on_one_key) {
  Folder folder;
  std::vector<pid_t> children;
  for (int p = 0; p < 16; ++p) {
    children.push_back(start([&, p] {
      const Store store(folder.path, 1 << 20);
      for (int n = 0; n < 30; ++n) {
        const bool put = had_the_lock([&] { store.put(key_of(0), bytes_of(value_of(0, (p + n) % 2 == 0))); });
        const auto found = store.find(key_of(0));
        if ((put && !found) || !is_right(0, found)) return false;  // it is there from the first put on
      }
      return true;
    }));
  }
  for (pid_t child : children) EXPECT_EQ(end_of(child), 0);
  EXPECT_EQ(Store(folder.path, 1 << 20).entries().size(), 1u);
}

TEST(Store, sixteen_processes_on_many_keys_with_little_room) {
  Folder folder;
  constexpr uint64_t limit = 80'000;
  const Store store(folder.path, limit);
  std::vector<pid_t> children;
  for (unsigned p = 0; p < 16; ++p) children.push_back(start([&, p] { return work(folder.path, limit, p + 1, 60); }));
  for (int n = 0; n < 50; ++n) EXPECT_LE(total_in(folder.path), limit);
  for (pid_t child : children) EXPECT_EQ(end_of(child), 0);
  EXPECT_LE(total_in(folder.path), limit);
  EXPECT_EQ(damaged_in(store), 0u);
}

// In a child, for a file system of its own: what it mounts ends with it.
TEST(Store, a_disk_that_is_full) {
  Folder folder;
  std::filesystem::create_directories(folder.path.parent_path());
  const pid_t child = start([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    std::filesystem::create_directory(folder.path);
    const bool mounted = ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         ::mount("none", folder.path.c_str(), "tmpfs", 0, "size=256k,mode=700") == 0;
    const rlimit limit{10'000, 10'000};  // where nobody may mount, files that end early
    if (!mounted && ::setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
    const Store store(folder.path, 1 << 30);
    int refused = 0;
    for (int i = 0; i < 2 * keys; ++i) {
      try {
        store.put(key_of(i), bytes_of(value_of(i, false)));
      } catch (const Error& e) {
        if (e.code != Code::io) return false;
        ++refused;
      }
    }
    if (refused == 0 || damaged_in(store) != 0 || store.entries().empty() || store.entries().size() + static_cast<size_t>(refused) != 2 * keys) return false;
    for (const auto& e : std::filesystem::directory_iterator(folder.path)) {
      if (e.path().extension() == ".tmp") return false;
    }
    for (int i = 0; i < 2 * keys; ++i) {
      if (!is_right(i, store.find(key_of(i)))) return false;
    }
    if (!mounted) return true;
    Store(folder.path, 100'000).put(key_of(0), bytes_of("small"));  // a limit that the disk can hold makes room
    if (Store(folder.path, 100'000).find(key_of(0)).value().size() != 5) return false;
    // A disk that is read-only: what is there is found.
    if (::mount("none", folder.path.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0) return false;
    const Store kept(folder.path, 100'000);
    if (!kept.problem().empty() || kept.find(key_of(0)).value().size() != 5) return false;
    try {
      kept.put("another", bytes_of("x"));
    } catch (const Error& e) {
      return e.code == Code::io;
    }
    return false;
  });
  EXPECT_EQ(end_of(child), 0);
}

}  // namespace
}  // namespace ingot
