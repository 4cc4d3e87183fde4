#include "base/store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace ingot {
namespace {

struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "ingot_store_XXXXXX").string();
    path = std::string(::mkdtemp(name.data())) + "/kept";
  }
  ~Folder() { std::filesystem::remove_all(path.parent_path()); }
};

std::span<const std::byte> bytes_of(const std::string& s) { return std::as_bytes(std::span(s.data(), s.size())); }
std::string text_of(const std::optional<std::vector<std::byte>>& v) { return v ? std::string(reinterpret_cast<const char*>(v->data()), v->size()) : "nothing"; }

void set_age(const std::filesystem::path& file, int seconds) {
  const timespec times[2] = {{::time(nullptr) - seconds, 0}, {::time(nullptr) - seconds, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
}

TEST(Store, gives_back_what_was_put) {
  Folder folder;
  Store store(folder.path, 1 << 20);
  EXPECT_EQ(text_of(store.find("a")), "nothing");
  store.put("a", bytes_of("first"));
  store.put("b", bytes_of(""));
  EXPECT_EQ(text_of(Store(folder.path, 1 << 20).find("a")), "first");
  EXPECT_EQ(text_of(store.find("b")), "");
  store.put("a", bytes_of("second"));
  EXPECT_EQ(text_of(store.find("a")), "second");
  ASSERT_EQ(store.entries().size(), 2u);
  EXPECT_EQ(store.read(Store::name_of("a"))->key, "a");
  store.remove(Store::name_of("a"));
  EXPECT_EQ(text_of(store.find("a")), "nothing");
}

TEST(Store, what_is_damaged_is_not_there) {
  Folder folder;
  Store store(folder.path, 1 << 20);
  const std::string value(1000, 'x');
  store.put("key", bytes_of(value));
  const std::string file = folder.path / Store::name_of("key");
  const auto size = std::filesystem::file_size(file);
  for (size_t at = 0; at < size; at += 7) {
    std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
    f.seekg(static_cast<std::streamoff>(at));
    const char old = static_cast<char>(f.get());
    f.seekp(static_cast<std::streamoff>(at));
    f.put(static_cast<char>(old ^ 1));
    f.close();
    EXPECT_EQ(text_of(store.find("key")), "nothing") << at;
    std::fstream back(file, std::ios::in | std::ios::out | std::ios::binary);
    back.seekp(static_cast<std::streamoff>(at));
    back.put(old);
  }
  EXPECT_EQ(text_of(store.find("key")), value);
  for (size_t left : {size - 1, size_t{100}, size_t{40}, size_t{0}}) {
    std::filesystem::resize_file(file, left);
    EXPECT_EQ(text_of(store.find("key")), "nothing") << left;
  }
  store.put("key", bytes_of(value));
  EXPECT_EQ(text_of(store.find("key")), value);
  std::filesystem::rename(file, folder.path / Store::name_of("other"));  // under another name
  EXPECT_EQ(text_of(store.find("other")), "nothing");
}

TEST(Store, what_was_used_longest_ago_goes_first) {
  Folder folder;
  const std::string value(1000, 'x');
  Store store(folder.path, 3500);  // three entries
  for (int i = 0; i < 3; ++i) {
    store.put(std::to_string(i), bytes_of(value));
    set_age(folder.path / Store::name_of(std::to_string(i)), 100 - i);
  }
  EXPECT_EQ(text_of(store.find("0")), value);  // used now
  store.put("3", bytes_of(value));
  EXPECT_EQ(text_of(store.find("1")), "nothing");
  EXPECT_EQ(text_of(store.find("0")), value);
  EXPECT_EQ(text_of(store.find("2")), value);
  store.put("large", bytes_of(std::string(5000, 'x')));  // more than there may be
  EXPECT_EQ(store.entries().size(), 3u);
  EXPECT_EQ(store.prune(0), 3u);
}

TEST(Store, says_what_the_nearest_key_has_else) {
  Folder folder;
  Store store(folder.path, 1 << 20);
  EXPECT_FALSE(store.nearest("a"));
  store.put("one: 1\ntwo: 2\nthree: 3\n", bytes_of("x"));
  store.put("one: 7\ntwo: 8\nthree: 3\n", bytes_of("x"));
  const std::string key = "one: 1\ntwo: 5\nthree: 3\nthree: 3\n";
  const auto near = store.read(*store.nearest(key));
  EXPECT_EQ(key_difference(near->key, key), (std::vector<std::string>{"- two: 2", "+ two: 5", "+ three: 3"}));
  EXPECT_TRUE(key_difference(key, key).empty());
}

TEST(Store, a_folder_that_others_can_write_is_not_used) {
  Folder folder;
  Store(folder.path, 1000).put("a", bytes_of("b"));
  std::filesystem::permissions(folder.path, std::filesystem::perms::all);
  Store open(folder.path, 1000);
  EXPECT_NE(open.problem().find("chmod"), std::string::npos) << open.problem();
  EXPECT_EQ(text_of(open.find("a")), "nothing");
  EXPECT_NE(Store("", 1000).problem(), "");
}

TEST(Store, a_killed_writer_leaves_no_half_entry) {
  Folder folder;
  const std::string a(100'000, 'a'), b(200'000, 'b');
  Store store(folder.path, 1 << 30);
  for (int i = 0; i < 100; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      Store own(folder.path, 1 << 30);
      for (;;) own.put("key", bytes_of(a)), own.put("key", bytes_of(b));
    }
    ::usleep(static_cast<useconds_t>(i * 53 % 4000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const std::string found = text_of(store.find("key"));
    EXPECT_TRUE(found == "nothing" || found == a || found == b);
  }
  store.put("key", bytes_of(a));  // no lock is left behind
  EXPECT_EQ(text_of(store.find("key")), a);
}

TEST(Store, processes_side_by_side) {
  Folder folder;
  std::vector<pid_t> children;
  for (int p = 0; p < 8; ++p) {
    children.push_back(::fork());
    if (children.back() == 0) {
      Store store(folder.path, 20'000);
      bool good = true;
      for (int i = 0; i < 40; ++i) {
        const std::string key = std::to_string((p + i) % 16), value(1000, static_cast<char>('a' + (p + i) % 16));
        if (auto found = store.find(key)) good = good && text_of(found) == value;
        store.put(key, bytes_of(value));
      }
      ::_exit(good ? 0 : 1);
    }
  }
  for (pid_t child : children) {
    int status = 1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  uint64_t total = 0;
  for (const Store::Entry& e : Store(folder.path, 20'000).entries()) total += e.bytes;
  EXPECT_LE(total, 20'000u);
}

}  // namespace
}  // namespace ingot
