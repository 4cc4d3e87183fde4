#include "backend/cuda/compile/nvrtc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "backend/cuda/available_test.h"
#include "base/error.h"

namespace ingot::backend::cuda {
namespace {

constexpr const char* small = "extern \"C\" __global__ void one(int* p) { *p = 1; }\n";

struct Folder {
  std::string path = testing::TempDir() + "ingot_code_cache_test";
  Folder() { std::filesystem::remove_all(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

TEST(cuda_nvrtc, compiles_in_threads_and_keeps_the_code) {
  if (std::string why = nvrtc_missing(); !why.empty()) GTEST_SKIP() << why;
  Folder folder;
  std::vector<CompileJob> jobs;
  for (int k = 0; k < 4; ++k) jobs.push_back({std::string(small) + "// " + std::to_string(k % 3), 90, k == 0 ? CompileJob::Form::ptx : CompileJob::Form::cubin});
  Compiled first = compile(jobs, {3, folder.path});
  EXPECT_EQ(first.cache_problem, "");
  EXPECT_EQ(first.code[0].back(), std::byte{0});
  EXPECT_NE(std::string(reinterpret_cast<const char*>(first.code[0].data())).find(".target sm_90"), std::string::npos);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(first.code[1].data()) + 1, 3), "ELF");
  Compiled second = compile(jobs, {2, folder.path});
  EXPECT_EQ(second.from_cache, jobs.size());
  EXPECT_EQ(second.code, first.code);
  Compiled third = compile(jobs, {1, "/proc/nothing/here"});
  EXPECT_EQ(third.code[1], first.code[1]);
  EXPECT_NE(third.cache_problem, "");
}

TEST(cuda_nvrtc, errors_name_the_line) {
  if (std::string why = nvrtc_missing(); !why.empty()) GTEST_SKIP() << why;
  try {
    compile(std::vector<CompileJob>{{"\n__global__ void f() { nonsense; }\n", 90, CompileJob::Form::cubin}});
    FAIL() << "compiled";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::internal);
    EXPECT_NE(e.message.find("line 2: __global__ void f() { nonsense; }"), std::string::npos) << e.message;
  }
  try {
    compile(std::vector<CompileJob>{{small, 20, CompileJob::Form::cubin}});
    FAIL() << "compiled";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::unsupported);
    EXPECT_NE(e.message.find("does not compile for sm_20: it knows sm_"), std::string::npos) << e.message;
    EXPECT_EQ(e.remedy.find("take a target from cuda:sm_"), 0u) << e.remedy;
  }
  std::vector<int> known = nvrtc_architectures();
  EXPECT_NE(std::find(known.begin(), known.end(), 90), known.end());
}

}  // namespace
}  // namespace ingot::backend::cuda
