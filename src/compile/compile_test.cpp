// Graphs become the expected steps: testdata/steps.test holds cases "== name", a graph, "--", the steps "kernel | label" of the plan
// ("prepare: " before those over weights). Each plan is also run and compared with the reference interpreter. INGOT_UPDATE=1 writes
// what the compiler makes into the file.
#include "compile/compile.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "backend/compiler.h"
#include "backend/cuda/available_test.h"
#include "base/error.h"
#include "compile/context.h"
#include "compile/graph_run_test.h"

namespace ingot::compile {
namespace {

const std::string folder = std::string(INGOT_SOURCE_DIR) + "/src/compile/testdata/";

using Case = ir::GraphCase;

std::vector<Case> read_cases(const std::string& file = "steps.test") { return ir::read_cases(folder + file); }

std::string steps_of(const plan::Plan& p) {
  std::string s;
  for (const plan::Step& step : p.targets[0].prepare.programs[0].steps) s += "prepare: " + step.kernel + " | " + step.label + "\n";
  for (const plan::Step& step : p.functions[0].programs[0].steps) s += step.kernel + " | " + step.label + "\n";
  return s;
}

Options for_targets(const char* targets) {
  Options o;
  o.set("target", targets);
  return o;
}

bool everything() { return std::getenv("INGOT_TEST_ALL") != nullptr; }

// Compiles the file's graphs and compares the steps with those that it says; runs them on `device` and compares with the interpreter, unless it is null. Device code takes a second for
// a graph: without the device that runs it, one graph in four has some, or all with INGOT_TEST_ALL=1.
void expect_steps(const std::string& file, const char* target, const char* device) {
  const std::vector<Case> cases = read_cases(file);
  ASSERT_FALSE(cases.empty());
  std::string updated;
  size_t number = 0;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    ir::Graph g = ir::parse(c.graph);
    ir::verify(g, ir::Level::canonical);
    std::mt19937 random(7);
    add_weights(g, random);
    Record record{.device_code = device != nullptr || everything() || number++ % 4 == 0};
    NamedGraph one{"forward", g};
    auto plan = std::make_shared<plan::Plan>(compile(std::span(&one, 1), for_targets(target), {}, &record));
    if (record.device_code) {
      EXPECT_NO_THROW(plan::verify(*plan));
    }
    updated += "== " + c.name + "\n" + c.graph + "--\n" + steps_of(*plan);
    if (std::getenv("INGOT_UPDATE") == nullptr) {
      EXPECT_EQ(steps_of(*plan), c.expected);
    }
    if (device != nullptr) run_and_compare(g, plan, random, device);
  }
  if (std::getenv("INGOT_UPDATE") != nullptr) std::ofstream(folder + file) << updated;
}

TEST(Compile, StepsOfSmallGraphs) { expect_steps("steps.test", "cpu", "cpu"); }

// What has memory, where and why, and each step's offers and refusals: testdata/phases.test has them for the graphs of the other two files.
TEST(Compile, StorageAndScheduleOfSmallGraphs) {
  SKIP_WITHOUT(nvrtc);
  std::string made;
  for (const auto& [file, target] : {std::pair("steps.test", "cpu"), std::pair("steps_cuda.test", "cuda:sm_90")}) {
    for (const Case& c : read_cases(file)) {
      ir::Graph g = ir::parse(c.graph);
      std::mt19937 random(7);
      add_weights(g, random);
      Record record{.device_code = false};
      NamedGraph one{"forward", g};
      compile(std::span(&one, 1), for_targets(target), {}, &record);
      made += "== " + c.name + "\n" + record.decisions;
    }
  }
  const std::string path = folder + "phases.test";
  if (std::getenv("INGOT_UPDATE") != nullptr) {
    std::ofstream(path) << made;
    return;
  }
  std::ifstream in(path);
  const std::string recorded{std::istreambuf_iterator<char>(in), {}};
  if (made == recorded) return;
  std::istringstream now(made), before(recorded);
  std::string name;
  for (std::string a, b; std::getline(now, a) && std::getline(before, b);) {
    if (a.starts_with("== ")) name = a;
    ASSERT_EQ(a, b) << name;
  }
  FAIL() << "one text is longer";
}

// For a GPU that need not be there; where there is one, it runs and is compared.
TEST(Compile, StepsForAGpu) {
  SKIP_WITHOUT(nvrtc);
  expect_steps("steps_cuda.test", "cuda:sm_90", backend::cuda::gpu_missing().empty() ? "cuda" : nullptr);
}

// act(a w) + r, between other GEMMs, so that all of it is in the plan's memory. K of the GEMM; what reads r later and what A is.
struct Residual {
  int k;
  const char *activation, *more;
  bool of_itself, taken;
};

// The result of a GEMM takes the memory of a residual that is read for the last time, unless sums of several blocks of K would be there first or A is there too.
TEST(Compile, ResultsTakeTheMemoryOfTheirResidual) {
  constexpr Residual cases[] = {{64, "relu", "%9", false, true},   {64, "tanh", "%9", false, true},  {300, "relu", "%9", false, true},
                                {500, "relu", "%9", false, false}, {64, "relu", "%5", false, false}, {72, "relu", "%9", true, false}};
  for (const Residual& r : cases) {
    SCOPED_TRACE(fmt::format("{} {} {} {}", r.k, r.activation, r.more, r.of_itself));
    ir::Graph g = ir::parse(fmt::format(R"(ingot-graph 1
%0 = input() {{name="x"}} : f32[50, 16]
%1 = weight() {{name="a"}} : f32[16, {0}]
%2 = weight() {{name="b"}} : f32[16, 72]
%3 = weight() {{name="w"}} : f32[{0}, 72]
%4 = matmul(%0, %2) {{}} : f32[50, 72]
%5 = relu(%4) {{}} : f32[50, 72]
%6 = matmul(%0, %1) {{}} : f32[50, {0}]
%7 = matmul({1}, %3) {{}} : f32[50, 72]
%8 = {2}(%7) {{}} : f32[50, 72]
%9 = add(%8, %5) {{}} : f32[50, 72]
%10 = weight() {{name="v"}} : f32[72, 8]
%11 = matmul(%9, %10) {{}} : f32[50, 8]
%12 = matmul({3}, %10) {{}} : f32[50, 8]
%13 = add(%11, %12) {{}} : f32[50, 8]
output %13 "y" []
)",
                                        r.k, r.of_itself ? "%5" : "%6", r.activation, r.more));
    std::mt19937 random(7);
    add_weights(g, random);
    auto plan = std::make_shared<plan::Plan>(compile(g, for_targets("cpu")));
    EXPECT_NO_THROW(plan::verify(*plan));
    const plan::Program& program = plan->functions[0].programs[0];
    auto step =
        std::find_if(program.steps.begin(), program.steps.end(), [&](const plan::Step& s) { return s.operands.size() == 4 && s.label.find(r.activation) != std::string::npos; });
    ASSERT_NE(step, program.steps.end()) << steps_of(*plan);
    EXPECT_EQ(step->operands[2].buffer == step->operands[3].buffer, r.taken) << steps_of(*plan);
    run_and_compare(g, plan, random, "cpu");
  }
}

// The reference runs all that the others run, and is the interpreter's equal.
// The GEMM whose epilogue a body is, is looked for below an operand that is read twice, over and over: 2^60 ways lead to the bottom.
TEST(Compile, SharedOperandsAreLookedAtOnce) {
  std::string maxima;
  for (int i = 5; i < 65; ++i) maxima += fmt::format("%{0} = max(%{1}, %{1}) {{}} : f32[4, 24, 8]\n", i, i - 1);
  ir::Graph g = ir::parse(fmt::format(R"(ingot-graph 1
%0 = input() {{name="x"}} : f32[4, 8, 16]
%1 = weight() {{name="w"}} : f32[16, 24]
%2 = matmul(%0, %1) {{}} : f32[4, 8, 24]
%3 = view(%2) {{map=map([4, 24, 8] <- [<0> + 1*i0, <0> + 1*i2, <0> + 1*i1])}} : f32[4, 24, 8]
%4 = input() {{name="s"}} : f32[4, 24, 8]
{}%65 = add(%64, %3) {{}} : f32[4, 24, 8]
output %65 "y" []
)",
                                      maxima));
  std::mt19937 random(7);
  add_weights(g, random);
  auto plan = std::make_shared<plan::Plan>(compile(g, for_targets("cpu")));
  run_and_compare(g, plan, random, "cpu");
}

// Its loops are slow on the graphs for a GPU: one in four of them, or all with INGOT_TEST_ALL=1.
TEST(Compile, TheReferenceRunsAllGraphs) {
  for (const char* file : {"steps.test", "steps_cuda.test"}) {
    size_t number = 0;
    for (const Case& c : read_cases(file)) {
      if (file == std::string("steps_cuda.test") && number++ % 4 != 0 && !everything()) continue;
      SCOPED_TRACE(c.name);
      ir::Graph g = ir::parse(c.graph);
      std::mt19937 random(7);
      add_weights(g, random);
      const plan::Plan made = compile(g, for_targets("reference"));
      EXPECT_NO_THROW(plan::verify(made));
      run_and_compare(g, plan::read(plan::write(made), nullptr), random);
    }
  }
}

// Constants of the reference's steps with a byte changed: refused when they are loaded or resolved, or they run inside of their operands.
TEST(Compile, TheReferenceChecksItsConstants) {
  size_t refused = 0, taken = 0;
  for (const Case& c : read_cases()) {
    SCOPED_TRACE(c.name);
    ir::Graph g = ir::parse(c.graph);
    std::mt19937 random(7);
    add_weights(g, random);
    const plan::Plan made = compile(g, for_targets("reference"));
    std::vector<int64_t> sizes;
    for (const ir::Symbol& s : g.symbols) sizes.push_back(s.opt);
    std::vector<ir::Array> inputs;
    for (const ir::Input& i : g.inputs) inputs.push_back(random_array({g.type(i.value).dtype, g.given_dims(i)}, sizes, random));
    std::vector<runtime::HostTensor> in, out;
    auto host = [](ir::Array& a) { return runtime::HostTensor{a.bytes.data(), a.dtype, static_cast<int>(a.dims.size()), a.dims.data(), nullptr}; };
    for (ir::Array& a : inputs) in.push_back(host(a));
    std::vector<ir::Array> results = ir::interpret(g, inputs);
    for (ir::Array& a : results) out.push_back(host(a));
    for (int change = 0; change < 60; ++change) {
      auto damaged = std::make_shared<plan::Plan>(made);
      auto& steps = damaged->functions[0].programs[0].steps;
      auto& constants = steps[random() % steps.size()].constants;
      if (constants.empty()) continue;
      constants[random() % constants.size()] ^= static_cast<std::byte>(change % 2 == 0 ? 1 << random() % 8 : random() % 256);
      try {
        runtime::Session(std::make_shared<runtime::Weights>(damaged, 1), 0, {1}).run(in, out);
        ++taken;
      } catch (const Error& e) {
        EXPECT_NE(e.code, Code::internal) << e.message;
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 100u);
  EXPECT_GT(taken, 10u);
}

// What the CPU runs, a GPU runs, from the same plan.
TEST(Compile, OnePlanForBoth) {
  SKIP_WITHOUT(nvrtc);
  bool gpu = backend::cuda::gpu_missing().empty();
  for (const Case& c : read_cases()) {
    SCOPED_TRACE(c.name);
    ir::Graph g = ir::parse(c.graph);
    std::mt19937 random(7);
    add_weights(g, random);
    auto plan = std::make_shared<plan::Plan>(compile(g, for_targets("cpu,cuda:sm_90")));
    ASSERT_EQ(plan->targets.size(), 2u);
    EXPECT_EQ(plan->targets[1].target.text(), "cuda:sm_90");
    EXPECT_EQ(plan->functions[0].programs.size(), 2u);
    // Every kernel that a step names is there as machine code; products are a library's. As PTX too, unless some code is for Hopper alone.
    for (bool ptx : {false, true}) {
      size_t kernels = 0;
      for (const plan::DeviceCode& code : plan->targets[1].code) kernels += (code.form == plan::DeviceCode::Form::portable) == ptx ? code.kernels.size() : 0;
      bool bodies = false, of_hopper = false;
      for (const plan::Step& s : plan->functions[0].programs[1].steps) {
        bodies = bodies || s.kernel != "matmul";
        of_hopper = of_hopper || s.kernel.starts_with("gemm_") || s.kernel == "attention";
      }
      EXPECT_EQ(kernels > 0, bodies && !(ptx && of_hopper));
    }
    std::vector<std::byte> bytes = plan::write(*plan);
    EXPECT_EQ(plan::write(compile(g, for_targets("cpu,cuda:sm_90"))), bytes);
    auto back = plan::read(bytes, nullptr);
    EXPECT_EQ(plan::write(*back), bytes);
    run_and_compare(g, back, random, "cpu");
    if (gpu) run_and_compare(g, back, random, "cuda");
  }
}

// Names of the kernels of a step's code, without the name of its text, which is in the step's constants.
std::set<std::string> code_of(const plan::Plan& p, size_t step) {
  const std::vector<std::byte>& constants = p.functions[0].programs[0].steps.at(step).constants;
  const std::string_view text(reinterpret_cast<const char*>(constants.data()), constants.size());
  std::set<std::string> out;
  for (const plan::DeviceCode& code : p.targets[0].code) {
    for (const std::string& k : code.kernels) {
      const size_t end = k.find('_', k.find_first_of("0123456789"));
      if (text.find(k.substr(0, end)) != std::string_view::npos) out.insert(k.substr(end + 1));
    }
  }
  return out;
}

// The plan's memory is aligned, and a caller's starts anywhere.
TEST(Compile, CodeForUnalignedOperandsIsWhereTheyMayBe) {
  SKIP_WITHOUT(nvrtc);
  // Of the fused bodies only the second one reads and writes the plan's memory alone.
  const plan::Plan made = compile(ir::parse(R"(ingot-graph 1
%0 = input() {name="x"} : f16[128, 128]
%1 = reduce(%0) {axes=[1], keep=true, kind="sum"} : f16[128, 1]
%2 = sub(%0, %1) {} : f16[128, 128]
%3 = view(%2) {map=map([128, 128] <- [<0> + 1*i1, <0> + 1*i0])} : f16[128, 128]
%4 = matmul(%2, %3) {} : f16[128, 128]
%5 = reduce(%4) {axes=[1], keep=true, kind="sum"} : f16[128, 1]
%6 = sub(%4, %5) {} : f16[128, 128]
%7 = view(%6) {map=map([128, 128] <- [<0> + 1*i1, <0> + 1*i0])} : f16[128, 128]
%8 = matmul(%6, %7) {} : f16[128, 128]
%9 = reduce(%8) {axes=[1], keep=true, kind="sum"} : f16[128, 1]
%10 = sub(%8, %9) {} : f16[128, 128]
output %10 "y" []
)"),
                                  for_targets("cuda:sm_90"));
  ASSERT_EQ(steps_of(made), "fused | sum + sub\ngemm_tiles | matmul\nfused | sum + sub\ngemm_tiles | matmul\nfused | sum + sub\n");
  EXPECT_EQ(code_of(made, 0), (std::set<std::string>{"0", "1"}));
  EXPECT_EQ(code_of(made, 2), std::set<std::string>{"0"});
  EXPECT_EQ(code_of(made, 4), (std::set<std::string>{"0", "1"}));
}

// A view of the plan's memory is aligned if it begins at a multiple of 16 bytes.
TEST(Compile, CodeForUnalignedOperandsIsThereForViews) {
  SKIP_WITHOUT(nvrtc);
  for (int from : {0, 4, 8, 12}) {
    SCOPED_TRACE(from);
    const plan::Plan made = compile(ir::parse(fmt::format(R"(ingot-graph 1
%0 = input() {{name="x"}} : f16[128, 144]
%1 = weight() {{name="w"}} : f16[128, 128]
%2 = reduce(%0) {{axes=[1], keep=true, kind="sum"}} : f16[128, 1]
%3 = sub(%0, %2) {{}} : f16[128, 144]
%4 = view(%3) {{map=map([128, 128] <- [<0> + 1*i0, <{}> + 1*i1])}} : f16[128, 128]
%5 = matmul(%4, %1) {{}} : f16[128, 128]
%6 = tanh(%5) {{}} : f16[128, 128]
%7 = reduce(%6) {{axes=[1], keep=true, kind="sum"}} : f16[128, 1]
%8 = sub(%6, %7) {{}} : f16[128, 128]
output %8 "y" []
)",
                                                          from)),
                                    for_targets("cuda:sm_90"));
    ASSERT_EQ(steps_of(made), "fused | sum + sub\ngemm_tiles | matmul + tanh\nfused | sum + sub\n");
    const std::set<std::string> code = code_of(made, 1);
    EXPECT_EQ(code.contains("any_1"), from % 8 != 0);
    EXPECT_TRUE(std::any_of(code.begin(), code.end(), [](const std::string& k) { return k.starts_with("t"); }));
  }
}

// If all sizes are known, a plan has only the kernels of moments that are launched.
TEST(Compile, CodeOfMomentsIsWhatIsLaunched) {
  SKIP_WITHOUT(nvrtc);
  auto kernels = [](std::string_view head, std::string_view rows) {
    const plan::Plan made = compile(ir::parse(fmt::format(R"({}
%0 = input() {{name="x"}} : f16[{}, 4096, 32, 8]
%1 = tanh(%0) {{}} : f16[{}, 4096, 32, 8]
%2, %3 = moments(%1) {{axes=[1, 3]}} : f32[{}, 32], f32[{}, 32]
output %2 "sums" []
output %3 "squares" []
)",
                                                          head, rows, rows, rows, rows)),
                                    for_targets("cuda:sm_90"));
    std::set<std::string> out;
    for (const plan::DeviceCode& code : made.targets[0].code) {
      for (const std::string& k : code.kernels) {
        if (k.starts_with("moments")) out.insert(k);
      }
    }
    return out;
  };
  EXPECT_EQ(kernels("ingot-graph 1", "2"), (std::set<std::string>{"moments_f16_columns_8_8", "moments_merge"}));
  EXPECT_EQ(kernels("ingot-graph 1\nsymbol B 1 2 8", "B").size(), 7U);
}

std::string told(const std::function<void()>& what) {
  try {
    what();
  } catch (const Error& e) {
    return e.message + " | " + e.remedy;
  }
  return "";
}

TEST(Compile, APlanForTheCpuAloneDoesNotRunOnAGpu) {
  ir::Graph g = ir::parse("ingot-graph 1\n%0 = input() {name=\"x\"} : f32[4]\n%1 = exp(%0) {} : f32[4]\noutput %1 \"y\" []\n");
  auto plan = std::make_shared<plan::Plan>(compile(g, {}));
  auto on = [&](const char* device) { return told([&] { runtime::Weights(plan, 1, system_allocator(), device); }); };
  EXPECT_EQ(on("auto"), "");
  EXPECT_EQ(on("cpu"), "");
  EXPECT_EQ(on("gpu"), "there is no device \"gpu\" | the devices are \"cpu\", \"cuda\", \"cuda:1\" and so on, \"reference\", or \"auto\"");
  std::string cuda = on("cuda");
  if (backend::cuda::gpu_missing().empty()) {
    EXPECT_TRUE(cuda.starts_with("the plan has no program for this GPU (sm_")) << cuda;
  } else {
    EXPECT_NE(cuda.find(" | "), std::string::npos) << cuda;
    EXPECT_GT(cuda.size(), 20u) << cuda;
  }
}

TEST(Compile, APlanForAGpuAloneDoesNotRunOnTheCpu) {
  SKIP_WITHOUT(nvrtc);
  ir::Graph g = ir::parse("ingot-graph 1\n%0 = input() {name=\"x\"} : f32[4]\n%1 = exp(%0) {} : f32[4]\noutput %1 \"y\" []\n");
  auto plan = std::make_shared<plan::Plan>(compile(g, for_targets("cuda:sm_90")));
  EXPECT_EQ(told([&] { runtime::Weights(plan, 1, system_allocator(), "cpu"); }),
            "the plan has no program for the CPU: it was compiled for cuda:sm_90 | compile the model with \"cpu\" among its targets");
}

// A packed B needs an offer that reads this packing. Among such offers the cheapest is chosen, in any order.
TEST(Compile, TheCheapestOfferIsTheOneRule) {
  using backend::Offer;
  const backend::Packing panels{"panels", {}}, tiles{"tiles", {}};
  const backend::Offers offers{{Offer{.implementation = "a", .cost = 3, .packing = panels}, Offer{.implementation = "b", .cost = 2, .packing = tiles},
                                Offer{.implementation = "c", .cost = 2, .packing = panels}, Offer{.implementation = "d", .cost = 1, .takes_body = false}},
                               {},
                               10};
  EXPECT_EQ(cheapest(offers, true)->implementation, "b");
  EXPECT_EQ(cheapest(offers, true)->packing, tiles);
  EXPECT_EQ(cheapest(offers, true, panels)->implementation, "c");
  EXPECT_EQ(cheapest(offers, true, backend::Packing{"another", {}}), nullptr);
  const backend::Offers dear{{Offer{.implementation = "a", .cost = 13}, Offer{.implementation = "d", .cost = 1, .takes_body = false}}, {}, 10};
  EXPECT_EQ(cheapest(dear, true)->implementation, "d");
  EXPECT_EQ(cheapest(dear, false)->implementation, "a");
}

// A timed build: which steps it offers for timing, and how known timings decide.
TEST(Compile, AmongOffersThatAreNearTheFastestIsChosen) {
  SKIP_WITHOUT(nvrtc);
  auto graph = [](const std::string& columns) {
    NamedGraph one{"forward", ir::parse("ingot-graph 1\nsymbol B 1 4 64\n%0 = input() {name=\"x\"} : f16[B, 64]\n%1 = weight() {name=\"w\"} : f16[64, " + columns +
                                        "]\n%2 = matmul(%0, %1) {} : f16[B, " + columns + "]\noutput %2 \"y\" []\n")};
    std::mt19937 random(7);
    add_weights(one.graph, random);
    return one;
  };
  auto compiled = [](const NamedGraph& one, Timed* timed, Record* record = nullptr) { return compile(std::span(&one, 1), for_targets("cuda:sm_90"), {}, record, timed); };
  auto kernels = [](const plan::Plan& p) {
    size_t n = 0;
    for (const plan::DeviceCode& c : p.targets[0].code) n += c.kernels.size();
    return n;
  };
  const NamedGraph halves = graph("64");
  const plan::Plan usual = compiled(halves, nullptr);
  Timed wanted{{}, true};
  const plan::Plan all = compiled(halves, &wanted);
  EXPECT_EQ(steps_of(all), steps_of(usual));
  EXPECT_GT(kernels(all), 0u);
  ASSERT_EQ(wanted.steps.size(), 1u);
  const plan::TimedStep& step = wanted.steps[0];
  ASSERT_EQ(step.ways.size(), 3u);
  EXPECT_EQ(step.ways[0].implementation + " " + step.ways[0].step.kernel, "gemm_tiles gemm_tiles");
  EXPECT_EQ(step.ways[1].implementation + " " + step.ways[1].step.kernel, "cublaslt matmul");
  EXPECT_EQ(step.ways[2].implementation + " " + step.ways[2].step.kernel, "gemm_implicit gemm_implicit");
  EXPECT_TRUE(step.problem.starts_with("gemm for cuda:sm_90: gemm_tiles or cublaslt or gemm_implicit of 4 x 64 x 64, ")) << step.problem;
  for (const char* fastest : {"cublaslt", "gemm_tiles", "a name that nobody has"}) {
    SCOPED_TRACE(fastest);
    const bool own = std::string(fastest) != "cublaslt";
    Timed known{{{"a machine", "another problem", "gemm_tiles"}, {"a machine", step.problem, fastest}}, true};
    Record record;
    const plan::Plan made = compiled(halves, &known, &record);
    ASSERT_EQ(known.steps.size(), 1u);
    EXPECT_EQ(known.steps[0].ways.size(), 1u);  // the choice between the offers is not timed again
    EXPECT_EQ(known.steps[0].problem, step.problem);
    EXPECT_EQ(made.functions[0].programs[0].steps[0].kernel, own ? "gemm_tiles" : "matmul");
    EXPECT_EQ(kernels(made) > 0, own);
    EXPECT_NE(record.decisions.find(std::string("* ") + (own ? "gemm_tiles: cost 3270" : "cublaslt: cost 3593") + ", can be timed: "), std::string::npos) << record.decisions;
    EXPECT_NE(record.decisions.find(", the fastest when it was timed\n"), std::string::npos) << record.decisions;
  }
  Timed none{{{"a machine", "another problem", "gemm_tiles"}}, false};
  EXPECT_EQ(plan::write(compiled(halves, &none)), plan::write(usual));
  // If only one offer takes the site, only the choices of its kernel can be timed.
  Timed single{{}, true};
  compiled(graph("60"), &single);
  ASSERT_EQ(single.steps.size(), 1u);
  EXPECT_EQ(single.steps[0].ways.size(), 1u);
  EXPECT_EQ(single.steps[0].problem, "");
}

TEST(Compile, TheSameGraphGivesTheSameBytes) {
  for (const Case& c : read_cases()) {
    if (c.graph.find("weight()") != std::string::npos) continue;  // written with their data, which these have not
    EXPECT_EQ(plan::write(compile(ir::parse(c.graph), {})), plan::write(compile(ir::parse(c.graph), {}))) << c.name;
  }
}

TEST(Compile, ACallbackCancels) {
  ir::Graph g = ir::parse("ingot-graph 1\n%0 = input() {name=\"x\"} : f32[2]\n%1 = exp(%0) {} : f32[2]\noutput %1 \"y\" []\n");
  std::vector<std::string> stages;
  compile(g, {}, [&](std::string_view stage, double) {
    stages.emplace_back(stage);
    return true;
  });
  for (const std::string& stop : stages) {
    try {
      compile(g, {}, [&](std::string_view stage, double) { return stage != stop; });
      ADD_FAILURE() << stop;
    } catch (const Error& e) {
      EXPECT_EQ(e.code, Code::cancelled);
      EXPECT_EQ(e.message, "the build was cancelled during " + stop);
    }
  }
}

TEST(Options, UnknownNamesAndValues) {
  Options o;
  auto told = [&](const char* name, const char* value) -> std::string {
    try {
      o.set(name, value);
    } catch (const Error& e) {
      EXPECT_EQ(e.code, Code::invalid_option);
      return e.message + " | " + e.remedy;
    }
    return "";
  };
  EXPECT_EQ(told("threads", "4"), "");
  EXPECT_EQ(o.integer("threads"), 4);
  EXPECT_EQ(told("threads", "four"), "option threads is \"four\"; an integer of 0 or more is needed | ");
  EXPECT_EQ(told("threads", "4 "), "option threads is \"4 \"; an integer of 0 or more is needed | ");
  EXPECT_EQ(told("threads", "-1"), "option threads is \"-1\"; an integer of 0 or more is needed | ");
  EXPECT_EQ(told("threds", "4"), "there is no option \"threds\" | did you mean \"threads\"?");
  EXPECT_EQ(o.integer("threads"), 4);
}

}  // namespace
}  // namespace ingot::compile
