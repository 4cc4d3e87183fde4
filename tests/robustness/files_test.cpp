// Plans on disk: a full disk leaves the old file as it was, threads may save to one path, two builds give the same bytes.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "ingot/ingot.hpp"

namespace {

class Files : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }

  static ingot::Plan build() { return ingot::compile(ingot::Model::open(INGOT_TEST_MODEL)); }
  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  long files() const { return std::distance(std::filesystem::directory_iterator(folder), {}); }

  const std::string folder = testing::TempDir() + "ingot_files_" + std::to_string(::getpid());
  const std::string path = folder + "/mlp.ingot";
};

// What a plan says of itself, in C++.
TEST_F(Files, StepsAndOffers) {
  const ingot::Plan plan = build();
  std::vector<ingot::Tensor> inputs;
  for (const ingot::Binding& b : plan.inputs()) inputs.push_back(ingot::Tensor::zeros(b.dtype, b.dims));
  const std::string steps = plan.verify_steps(inputs, ingot::Options().set("device", "cpu"));
  EXPECT_NE(steps.find("\"kernel\": \"matmul\""), std::string::npos) << steps;
  EXPECT_NE(steps.find("\"first\": null"), std::string::npos) << steps;
  EXPECT_NE(plan.offers().find("* matmul"), std::string::npos) << plan.offers();
}

TEST_F(Files, FullDisk) {
  ingot::Plan plan = build();
  plan.save(path);
  const std::string before = read(path);
  // A limit on the size of files stands for the end of the disk: write() fails in the middle.
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  auto* handler = std::signal(SIGXFSZ, SIG_IGN);
  for (size_t limit : {size_t{0}, size_t{1}, size_t{4096}, before.size() - 1}) {
    rlimit small{limit, old.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    try {
      plan.save(path);
      ADD_FAILURE() << "saved in " << limit << " bytes";
    } catch (const ingot::Error& e) {
      EXPECT_EQ(e.code(), INGOT_IO);
      EXPECT_EQ(e.message(), "cannot write " + path + ": File too large");
      EXPECT_EQ(e.remedy(), "free some space and try again");
    }
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
    EXPECT_TRUE(read(path) == before);
    EXPECT_EQ(files(), 1);
  }
  std::signal(SIGXFSZ, handler);
  plan.save(path);
  ingot::Plan::load(path).verify();
}

TEST_F(Files, ThreadsSaveToOnePath) {
  ingot::Plan plan = build();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) EXPECT_NO_THROW(plan.save(path));
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_NO_THROW(ingot::Plan::load(path).verify());
  EXPECT_EQ(files(), 1);
}

TEST_F(Files, TwoBuildsAreEqual) {
  build().save(path);
  build().save(path + "2");
  EXPECT_TRUE(read(path) == read(path + "2"));
  // What was read is written as it was.
  ingot::Plan::load(path).save(path + "3");
  EXPECT_TRUE(read(path) == read(path + "3"));
}

}  // namespace
