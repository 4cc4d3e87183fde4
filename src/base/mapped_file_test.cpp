#include "base/mapped_file.h"
#include "base/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/own_file.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  Files() {
    std::string name = (fs::temp_directory_path() / "ingot-XXXXXX").string();
    folder = ::mkdtemp(name.data());
  }
  ~Files() override { fs::remove_all(folder); }
  std::string path(const char* name) const { return folder / name; }
  size_t count() const { return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator())); }

  fs::path folder;
};

std::span<const std::byte> bytes_of(std::string_view s) { return {reinterpret_cast<const std::byte*>(s.data()), s.size()}; }

void put(const std::string& path, std::initializer_list<std::string_view> parts) {
  std::vector<std::span<const std::byte>> list;
  for (std::string_view p : parts) list.push_back(bytes_of(p));
  write_atomically(path, list);
}

std::string get(const std::string& path) {
  auto file = MappedFile::open(path);
  return {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()};
}

std::string message_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::io);
    return e.message;
  }
  return "no error";
}

TEST_F(Files, WrittenPartsAreReadBack) {
  put(path("a"), {"one", "", "two"});
  EXPECT_EQ(get(path("a")), "onetwo");
  put(path("a"), {});
  EXPECT_EQ(get(path("a")), "");
  EXPECT_EQ(count(), 1u);
}

TEST_F(Files, AMapOutlivesTheFileThatReplacesIt) {
  put(path("a"), {"old"});
  auto file = MappedFile::open(path("a"));
  put(path("a"), {"new!"});
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()), "old");
  EXPECT_EQ(get(path("a")), "new!");
}

// What writers that are attacked meet: links in their way, names that were guessed.
TEST_F(Files, LinksAreReplacedAndNotFollowed) {
  put(path("target"), {"precious"});
  for (const char* link : {"a", "a.tmp", ".a.tmp", "a.0.tmp"}) fs::create_symlink(folder / "target", folder / link);
  put(path("a"), {"new"});
  EXPECT_EQ(get(path("a")), "new");
  EXPECT_FALSE(fs::is_symlink(folder / "a"));
  EXPECT_EQ(get(path("target")), "precious");
  fs::create_symlink(folder / "nowhere", folder / "b");
  put(path("b"), {"new"});
  EXPECT_FALSE(fs::exists(folder / "nowhere"));
  EXPECT_EQ(count(), 6u);
}

TEST_F(Files, LongNamesAndBareNames) {
  const std::string longest(255, 'n');
  put(path(longest.c_str()), {"x"});
  EXPECT_EQ(get(path(longest.c_str())), "x");
  fs::path before = fs::current_path();
  fs::current_path(folder);
  put("bare", {"y"});
  fs::current_path(before);
  EXPECT_EQ(get(path("bare")), "y");
  EXPECT_EQ(count(), 2u);
}

TEST_F(Files, AFileThatIsReadWholeStays) {
  const std::string text(10000, 'x');
  put(path("a"), {text});
  auto file = MappedFile::open(path("a"), MappedFile::Access::whole);
  file->drop(file->bytes());  // nothing: there is nowhere to read it from again
  fs::resize_file(folder / "a", 10);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()), text);
  fs::resize_file(folder / "a", 0);
  EXPECT_EQ(MappedFile::open(path("a"), MappedFile::Access::whole)->bytes().size(), 0u);
}

TEST_F(Files, APipeIsNoFileAndIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(message_of([&] { MappedFile::open(path("pipe")); }), "cannot open " + path("pipe") + ": it is not a regular file");
}

// A pipe's readers would wait for ever, and a device is everybody's: neither is replaced, also not behind a link.
TEST_F(Files, WhatIsNoFileIsNotReplaced) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  fs::create_symlink(path("pipe"), path("link"));
  fs::create_symlink("/dev/null", path("device"));
  fs::create_symlink(folder, path("to_folder"));
  for (const char* name : {"pipe", "link", "device"}) EXPECT_EQ(message_of([&] { put(path(name), {"x"}); }), "cannot write " + path(name) + ": it is not a regular file");
  EXPECT_EQ(message_of([&] { put(path("to_folder"), {"x"}); }), "cannot write " + path("to_folder") + ": Is a directory");
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  EXPECT_EQ(count(), 4u);
}

// What a killed writer leaves in a cache is removed after a day; a writer at work, other files and links are left alone.
TEST_F(Files, LeftoversOfKilledWritersAreRemoved) {
  const std::string digits(32, '7');
  auto make = [&](const std::string& name, int hours) {
    std::ofstream(folder / name) << "x";
    fs::last_write_time(folder / name, fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  make(".ingot-" + digits + ".tmp", 25);
  make(".ingot-" + std::string(32, '8') + ".tmp", 23);
  make(".ingot-mine.tmp", 1000);
  make("entry", 1000);
  fs::create_directory(folder / (".ingot-" + std::string(32, '9') + ".tmp"));
  fs::create_symlink(path("entry"), folder / (".ingot-" + std::string(32, 'a') + ".tmp"));
  EXPECT_EQ(make_own_folder(folder), std::nullopt);
  EXPECT_FALSE(fs::exists(folder / (".ingot-" + digits + ".tmp")));
  EXPECT_EQ(count(), 5u);
  EXPECT_TRUE(is_temporary_name(".ingot-" + digits + ".tmp"));
}

TEST_F(Files, DroppedPagesComeBack) {
  std::string text(20000, 'x');
  put(path("a"), {text});
  auto file = MappedFile::open(path("a"));
  file->drop(file->bytes());
  file->drop(file->bytes().subspan(100, 9000));
  file->drop(bytes_of(text));  // not of this file: nothing happens
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()), text);
  EXPECT_EQ(text, std::string(20000, 'x'));
}

TEST_F(Files, WhatCannotBeOpenedOrWrittenIsTold) {
  EXPECT_EQ(message_of([&] { MappedFile::open(path("none")); }), "cannot open " + path("none") + ": No such file or directory");
  EXPECT_EQ(message_of([&] { MappedFile::open(folder); }), "cannot open " + folder.string() + ": Is a directory");
  EXPECT_EQ(message_of([&] { put(path("no/file"), {"x"}); }), "cannot write " + path("no/file") + ": No such file or directory");
  fs::create_directory(folder / "folder");
  EXPECT_EQ(message_of([&] { put(path("folder"), {"x"}); }), "cannot write " + path("folder") + ": Is a directory");
  EXPECT_EQ(count(), 1u);
}

// A limit on the size of files stands for the disk that is full.
TEST_F(Files, AFailedWriteLeavesTheOldFileAlone) {
  put(path("a"), {"old"});
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 1000;
  ::setrlimit(RLIMIT_FSIZE, &small);
  std::string message = message_of([&] { put(path("a"), {std::string(700, 'x'), std::string(700, 'y')}); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(message, "cannot write " + path("a") + ": File too large");
  EXPECT_EQ(get(path("a")), "old");
  EXPECT_EQ(count(), 1u);
}

TEST_F(Files, ThreadsThatWriteOneFileLeaveOneOfTheirs) {
  const std::string texts[] = {std::string(200000, 'a'), std::string(300000, 'b')};
  for (int round = 0; round < 20; ++round) {
    std::vector<std::thread> writers;
    for (int i = 0; i < 4; ++i) writers.emplace_back([&, i] { put(path("a"), {texts[i % 2]}); });
    for (auto& w : writers) w.join();
    std::string found = get(path("a"));
    ASSERT_TRUE(found == texts[0] || found == texts[1]);
    ASSERT_EQ(count(), 1u);
  }
}

}  // namespace
}  // namespace ingot
