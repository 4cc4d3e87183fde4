// A plan for one target, compiled again for another from the text of its graphs, is the plan that the model itself would have given.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "backend/cuda/available_test.h"
#include "pipeline.h"
#include "runtime/session.h"

namespace ingot {
namespace {

using Settings = std::vector<std::pair<const char*, const char*>>;

compile::Options options_of(const char* target, const Settings& settings) {
  compile::Options options;
  options.set("target", target);
  for (auto [name, value] : settings) options.set(name, value);
  return options;
}

plan::Plan rebuilt(const plan::Plan& plan, const Target& target) { return rebuild(plan, {&target, 1}); }

void expect_same(const char* model, const char* from, const char* to, const Settings& settings) {
  SCOPED_TRACE(fmt::format("{}: {} to {}", model, from, to));
  capture::Model captured = capture::import_archive(fmt::format("{}/src/capture/testdata/{}", INGOT_SOURCE_DIR, model));
  captured.signature = "{\"of\": \"a test\"}";
  plan::Plan old = build(captured, options_of(from, settings));
  std::vector<std::byte> wanted = plan::write(build(captured, options_of(to, settings)));
  EXPECT_EQ(plan::write(rebuilt(old, *parse_target(to))), wanted);
  EXPECT_EQ(plan::write(rebuilt(*plan::read(plan::write(old), nullptr), *parse_target(to))), wanted);
}

TEST(Rebuild, GivesWhatTheModelGives) {
  SKIP_WITHOUT(nvrtc);
  for (const char* model : {"mlp.pt2", "varied.pt2"}) {
    expect_same(model, "cuda:sm_90", "cuda:sm_80", {});
    expect_same(model, "cuda:sm_90", "cuda:sm_120", {});
    expect_same(model, "cpu", "cuda:sm_80", {});
    expect_same(model, "cpu,cuda:sm_90", "cuda:sm_75", {});
    expect_same(model, "cuda:sm_90", "cpu", {});
  }
}

TEST(Rebuild, KeepsTheOptions) {
  SKIP_WITHOUT(nvrtc);
  expect_same("mlp.pt2", "cuda:sm_90", "cuda:sm_80", {{"matmul_precision", "tf32"}, {"weights", "strip"}});
  expect_same("mlp.pt2", "cpu", "cuda:sm_80", {{"min_block_size", "2"}});
  plan::Plan exact = build(capture::import_archive(INGOT_SOURCE_DIR "/src/capture/testdata/mlp.pt2"), options_of("cpu", {}));
  plan::Plan tf32 = build(capture::import_archive(INGOT_SOURCE_DIR "/src/capture/testdata/mlp.pt2"), options_of("cpu", {{"matmul_precision", "tf32"}}));
  auto steps = [](const plan::Plan& p) { return p.functions[0].programs[0].steps; };
  bool differ = false;
  auto a = steps(rebuilt(exact, cuda_target(80))), b = steps(rebuilt(tf32, cuda_target(80)));
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) differ = differ || a[i].constants != b[i].constants;
  EXPECT_TRUE(differ);
}

std::string told(const plan::Plan& plan, const char* target) {
  try {
    rebuilt(plan, *parse_target(target));
  } catch (const Error& e) {
    return fmt::format("{}: {}", static_cast<int>(e.code), e.message);
  }
  return "";
}

// A file may say one thing in its graph and another in what it takes and gives.
TEST(Rebuild, AGraphThatIsNotTheProgramsIsRefused) {
  plan::Plan good = build(capture::import_archive(INGOT_SOURCE_DIR "/src/capture/testdata/mlp.pt2"), {});
  EXPECT_EQ(told(good, "cpu"), "");
  plan::Plan bad = good;
  bad.functions[0].bindings[0].name = "other";
  EXPECT_EQ(told(bad, "cpu"), "5: function \"forward\" of the plan does not take and give what its graph does");
  bad = good;
  bad.functions[0].bindings[1].dtype = ir::DType::f64;
  EXPECT_EQ(told(bad, "cpu"), "5: function \"forward\" of the plan does not take and give what its graph does");
  bad = good;
  bad.weights[1].dims[0] += 1;
  EXPECT_EQ(told(bad, "cpu"), fmt::format("5: weight \"{}\" of the plan is not what its graph reads", bad.weights[1].name));
  bad = good;
  bad.weights.pop_back();
  EXPECT_EQ(told(bad, "cpu"), fmt::format("5: the plan's graph has a weight \"{}\", which the plan has not", good.weights.back().name));
  bad = good;
  bad.functions[0].graph = "no graph";
  EXPECT_TRUE(told(bad, "cpu").starts_with("5: graph text, line 1: ")) << told(bad, "cpu");
  bad = good;
  bad.provenance.emplace_back("an_option_of_later", "1");
  EXPECT_EQ(told(bad, "cpu"), "6: the plan was compiled with an option that this ingot does not know: there is no option \"an_option_of_later\"");
  bad = good;
  bad.provenance.emplace_back("timing_cache", "/a/file/of/yours");
  EXPECT_EQ(told(bad, "cpu"), "5: the plan says it was compiled with option \"timing_cache\", which changes no plan");
}

// The pretend driver is that of this process.
void set_gpu(int sm) {
  static void* const driver = dlopen(INGOT_PRETEND_FOLDER "/libcuda.so.1", RTLD_NOW);
  static void* const products = dlopen(INGOT_PRETEND_FOLDER "/libcublasLt.so.13", RTLD_NOW);
  ASSERT_TRUE(driver != nullptr && products != nullptr) << dlerror();
  reinterpret_cast<void (*)(const char*, long long)>(dlsym(driver, "pretend_set"))("sm", sm);
}

TEST(Rebuild, IsForGpusThatSomeKernelHasNoCodeFor) {
  SKIP_WITHOUT(nvrtc);
  capture::Model model = capture::import_archive(INGOT_SOURCE_DIR "/src/capture/testdata/varied.pt2");
  auto missing = [](int sm, const plan::Plan& plan, const char* device = "cuda") {
    set_gpu(sm);
    const std::optional<Target> target = runtime::missing_target(plan, device);
    return target ? target->text() : "";
  };
  plan::Plan plan = build(model, options_of("cuda:sm_80", {}));
  EXPECT_EQ(missing(75, plan), "cuda:sm_75");
  EXPECT_EQ(missing(75, plan, "auto"), "cuda:sm_75");
  EXPECT_EQ(missing(75, plan, "cpu"), "");
  for (int sm : {80, 86, 90, 120}) EXPECT_EQ(missing(sm, plan), "") << sm;  // newer ones by its PTX
  plan::Plan other = plan;
  for (plan::DeviceCode& c : other.targets[0].code) {
    if (c.form == plan::DeviceCode::Form::portable) c.kernels[0] += "_of_another";
  }
  EXPECT_EQ(missing(86, other), "");
  EXPECT_EQ(missing(90, other), "cuda:sm_90");
  std::erase_if(plan.targets[0].code, [](const plan::DeviceCode& c) { return c.form == plan::DeviceCode::Form::portable; });
  EXPECT_EQ(missing(86, plan), "");
  EXPECT_EQ(missing(90, plan), "cuda:sm_90");
  EXPECT_EQ(missing(90, build(model, options_of("cuda:sm_75,cuda:sm_90", {}))), "");
  plan::Plan cpu = build(model, {});
  EXPECT_EQ(missing(90, cpu, "auto"), "");
  EXPECT_EQ(missing(90, cpu, "cuda:0"), "cuda:sm_90");
  plan.targets[0].code.clear();
  EXPECT_EQ(missing(80, plan), "cuda:sm_80");
  plan::Plan products = build(capture::import_archive(INGOT_SOURCE_DIR "/src/capture/testdata/mlp.pt2"), options_of("cuda:sm_80", {}));
  EXPECT_EQ(missing(90, products), "");  // by cuBLASLt, without code
}

// A plan whose code was taken out has steps that nothing can run.
TEST(Rebuild, AKernelWithoutCodeIsToldWithWhatToDo) {
  SKIP_WITHOUT(nvrtc);
  plan::Plan plan = build(capture::import_archive(INGOT_SOURCE_DIR "/src/capture/testdata/varied.pt2"), options_of("cuda:sm_90", {}));
  for (plan::DeviceCode& c : plan.targets[0].code) c.kernels.clear();
  set_gpu(90);
  try {
    runtime::Weights weights(std::make_shared<plan::Plan>(plan), 1, system_allocator(), "cuda");
    runtime::Session session(std::shared_ptr<runtime::Weights>(&weights, [](auto*) {}), 0, {1});
    int64_t x[] = {3, 8}, y[] = {3, 2};
    runtime::HostTensor inputs[] = {{nullptr, ir::DType::f32, 2, x, nullptr}, {nullptr, ir::DType::f32, 2, y, nullptr}};
    session.resolve(inputs);
    FAIL() << "resolved";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::version);
    EXPECT_NE(e.message.find("the plan has no code for sm_90 of its kernel "), std::string::npos) << e.message;
    EXPECT_EQ(e.remedy, "compile the model again (`ingot compile --set target=cuda:sm_90`)");
  }
}

// Whatever the text is turned into, it is compiled or refused.
TEST(Rebuild, DamagedGraphsAreErrors) {
  std::mt19937 random(7);
  auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  size_t refused = 0, built = 0;
  for (const char* model : {"mlp.pt2", "varied.pt2"}) {
    plan::Plan good = build(capture::import_archive(fmt::format("{}/src/capture/testdata/{}", INGOT_SOURCE_DIR, model)), {});
    const std::string text = good.functions[0].graph;
    std::vector<std::string> words;
    for (size_t at = 0; at < text.size();) {
      size_t end = std::min(text.find_first_of(" ,[](){}<>%&=:\n", at), text.size() - 1);
      if (end > at) words.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    for (int n = 0; n < (std::getenv("INGOT_TEST_ALL") != nullptr ? 50000 : 2000); ++n) {
      plan::Plan bad = good;
      std::string& t = bad.functions[0].graph;
      for (size_t changes = 1 + below(3); changes > 0; --changes) {
        const std::string &from = words[below(words.size())], &to = words[below(words.size())];
        if (size_t at = t.find(from, below(t.size())); at != std::string::npos) t.replace(at, from.size(), to);
      }
      try {
        rebuilt(bad, Target());
        ++built;
      } catch (const Error& e) {
        EXPECT_NE(e.code, Code::internal) << e.message << "\n" << t;
        ++refused;
      }
    }
  }
  fmt::print("{} refused, {} built\n", refused, built);
  EXPECT_GT(refused, 1000u);
  EXPECT_GT(built, 0u);
}

}  // namespace
}  // namespace ingot
