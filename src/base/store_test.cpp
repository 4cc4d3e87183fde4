#include "base/store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/own_file.h"
#include "base/store_folder_test.h"

namespace ingot {
namespace {

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
  EXPECT_EQ(store.key_of(Store::name_of("a")), "a");
  EXPECT_FALSE(store.damage(Store::name_of("a")));
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
  EXPECT_EQ(text_of(store.find("0")), value);
  EXPECT_EQ(store.entries().front().name, Store::name_of("0"));  // within one second too
  store.put("0", bytes_of(value));                               // what is there already needs no room
  EXPECT_EQ(store.entries().size(), 3u);
  EXPECT_EQ(store.prune(0).old, 3u);
}

TEST(Store, the_nearest_key) {
  Folder folder;
  Store store(folder.path, 1 << 20);
  EXPECT_FALSE(store.nearest("a"));
  store.put("one: 1\ntwo: 2\nthree: 3\n", bytes_of("x"));
  store.put("one: 7\ntwo: 8\nthree: 3\n", bytes_of("x"));
  EXPECT_EQ(store.key_of(*store.nearest("one: 1\ntwo: 5\nthree: 3\nthree: 3\n")), "one: 1\ntwo: 2\nthree: 3\n");
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

std::optional<std::string> damage_of(const Store& store, const std::string& key) { return store.damage(Store::name_of(key)); }

TEST(Store, what_stands_in_the_place_of_an_entry) {
  Folder folder;
  Store store(folder.path, uint64_t{1} << 62);
  auto file = [&](const std::string& key) { return folder.path / Store::name_of(key); };
  for (std::string key : {"link", "folder", "pipe", "text", "short", "older", "cut", "longer", "other", "whole"}) store.put(key, bytes_of(key));
  const std::filesystem::path target = folder.path.parent_path() / "target";
  std::filesystem::rename(file("link"), target);
  std::filesystem::create_symlink(target, file("link"));
  for (const char* key : {"folder", "pipe"}) std::filesystem::remove(file(key));
  std::filesystem::create_directory(file("folder"));
  ASSERT_EQ(::mkfifo(file("pipe").c_str(), 0600), 0);
  std::ofstream(file("text")) << std::string(1000, 'x');
  std::ofstream(file("short")) << "INGKEPT2";
  std::fstream(file("older"), std::ios::in | std::ios::out | std::ios::binary) << "INGKEPT1";
  std::filesystem::resize_file(file("cut"), std::filesystem::file_size(file("cut")) - 1);
  std::filesystem::resize_file(file("longer"), uint64_t{1} << 40);  // no memory is taken for it
  std::filesystem::copy_file(file("whole"), file("other"), std::filesystem::copy_options::overwrite_existing);
  const std::pair<const char*, const char*> said[] = {{"link", "not a file"},     {"folder", "not a file"},      {"pipe", "not a file"},
                                                      {"text", "does not begin"}, {"short", "8 bytes, too few"}, {"older", "this version"},
                                                      {"cut", "its head says"},   {"longer", "its head says"},   {"other", "another name"}};
  for (auto [key, words] : said) {
    EXPECT_EQ(text_of(store.find(key)), "nothing") << key;
    EXPECT_NE(damage_of(store, key).value_or("whole").find(words), std::string::npos) << key << ": " << damage_of(store, key).value_or("whole");
  }
  EXPECT_EQ(text_of(store.find("whole")), "whole");
  EXPECT_FALSE(damage_of(store, "never there"));
  EXPECT_EQ(store.entries().size(), 10u);
  store.put("link", bytes_of("again"));
  EXPECT_EQ(text_of(store.find("link")), "again");
  EXPECT_TRUE(std::filesystem::exists(target));
  EXPECT_THROW(store.put("folder", bytes_of("again")), Error);
  EXPECT_EQ(store.prune(uint64_t{1} << 62).damaged, 8u);
  EXPECT_EQ(store.entries().size(), 2u);
  store.put("folder", bytes_of("again"));
  EXPECT_EQ(text_of(store.find("folder")), "again");
}

TEST(Store, what_a_killed_writer_left_goes_at_once) {
  Folder folder;
  Store store(folder.path, 1 << 20);
  const std::string names[] = {".ingot-00112233445566778899aabbccddeeff.tmp", ".ingot-10112233445566778899aabbccddeeff.tmp"};
  std::ofstream(folder.path / names[0]) << "half";
  store.put("a", bytes_of("b"));
  EXPECT_FALSE(std::filesystem::exists(folder.path / names[0]));
  std::ofstream(folder.path / names[1]) << "half";
  EXPECT_EQ(store.prune(1 << 20).left, 1u);
  EXPECT_FALSE(std::filesystem::exists(folder.path / names[1]));
  EXPECT_EQ(text_of(store.find("a")), "b");
}

TEST(Store, a_folder_of_another_user_is_not_used) {
  if (::geteuid() != 0) return;  // nobody else can give a folder away
  Folder folder;
  Store(folder.path, 1000).put("a", bytes_of("b"));
  ASSERT_EQ(::chown(folder.path.c_str(), 12345, 12345), 0);
  Store store(folder.path, 1000);
  EXPECT_NE(store.problem().find("another user (number 12345)"), std::string::npos) << store.problem();
  EXPECT_EQ(text_of(store.find("a")), "nothing");
  store.put("a", bytes_of("c"));
  ASSERT_EQ(::chown(folder.path.c_str(), 0, 0), 0);
  ASSERT_EQ(::chown((folder.path / Store::name_of("a")).c_str(), 12345, 12345), 0);  // one entry
  EXPECT_EQ(text_of(Store(folder.path, 1000).find("a")), "nothing");
  EXPECT_NE(damage_of(Store(folder.path, 1000), "a").value_or("").find("another user"), std::string::npos);
}

TEST(FileLock, is_given_back_also_where_a_child_has_it) {
  Folder folder;
  std::filesystem::create_directories(folder.path);
  const std::string path = folder.path / "x";
  pid_t child = 0;
  {
    const FileLock lock(path);
    ASSERT_EQ(lock.state(), FileLock::State::held);
    child = ::fork();
    if (child == 0) {
      ::pause();
      ::_exit(0);
    }
    EXPECT_EQ(FileLock(path, std::chrono::milliseconds(20)).state(), FileLock::State::busy);
  }
  EXPECT_EQ(FileLock(path, std::chrono::milliseconds(20)).state(), FileLock::State::held);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(FileLock, a_process_that_is_stopped_stops_nobody_else) {
  Folder folder;
  Store store(folder.path, 1 << 20);
  store.put("a", bytes_of("b"));
  const pid_t child = ::fork();
  if (child == 0) {
    const FileLock lock(folder.path / "entries");
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  try {
    store.put("c", bytes_of("d"));
    ADD_FAILURE() << "it was written";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::io);
    EXPECT_NE(e.message.find("another process"), std::string::npos) << e.message;
  }
  EXPECT_EQ(text_of(store.find("a")), "b");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  store.put("c", bytes_of("d"));  // the dead give it back
  EXPECT_EQ(text_of(store.find("c")), "d");
}

}  // namespace
}  // namespace ingot
