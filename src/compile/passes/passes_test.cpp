// Compile's passes tested by data (ir/pass_cases_test.h). Cases too large for a file give what the graph gave, by the interpreter, and take little time.
#include "compile/passes/passes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compile/graph_run_test.h"
#include "ir/compose.h"
#include "ir/pass_cases_test.h"

namespace ingot::compile {
namespace {

using namespace ir;

const std::string pass_folder = std::string(INGOT_SOURCE_DIR) + "/src/compile/passes/testdata/";

class PassTest : public ::testing::TestWithParam<std::string> {};

// Each weight in the files has up to 8 elements along K, all below 2: rounded to int8 each errs by less than 1/127.
void expect_encoded(const Array& found, const Array& wanted) {
  ASSERT_EQ(found.dims, wanted.dims);
  ASSERT_EQ(wanted.dtype, DType::f32);
  for (int64_t i = 0; i < wanted.numel(); ++i) {
    float x, y;
    std::memcpy(&x, found.bytes.data() + 4 * i, 4);
    std::memcpy(&y, wanted.bytes.data() + 4 * i, 4);
    ASSERT_NEAR(x, y, 8 * 2 / 127.0) << "element " << i;
  }
}

TEST_P(PassTest, Cases) {
  const auto pass = std::find_if(passes().begin(), passes().end(), [](const Pass& p) { return p.name == GetParam(); });
  ASSERT_NE(pass, passes().end());
  bool is_encoded = false;
  auto run = [&](Graph& g, const auto& given) {
    Options options;
    for (const auto& [name, value] : given) options.set(name, value);
    is_encoded = options.text("weight_dtype") != "none";
    pass->run(g, backend_for(options.targets().at(0), options));
  };
  test_cases(pass_folder, GetParam(), run, [&](const Array& found, const Array& wanted) { is_encoded ? expect_encoded(found, wanted) : expect_close(found, wanted); });
}
INSTANTIATE_TEST_SUITE_P(Data, PassTest, ::testing::ValuesIn(tested_passes(pass_folder)), [](const auto& info) { return info.param; });

TEST(Passes, EachHasTestData) {
  std::vector<std::string> names;
  for (const Pass& p : passes()) names.emplace_back(p.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(tested_passes(pass_folder), names);
}

const Backend gpu() { return backend_for(cuda_target(90), {}); }

Graph after(void (*pass)(Graph&, const Backend&), Graph g, const Backend& backend) {
  pass(g, backend);
  return g;
}

bool has(const Graph& g, Op op) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [&](const Node& node) { return node.op == op; });
}

void expect_same(const Graph& before, const Graph& after) {
  std::mt19937 random(7);
  std::vector<Array> inputs;
  for (const Input& i : before.inputs) inputs.push_back(random_array(before.type(i.value), {}, random));
  const std::vector<Array> wanted = interpret(before, inputs), found = interpret(after, inputs);
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t k = 0; k < found.size(); ++k) expect_close(found[k], wanted[k]);
}

TEST(Passes, ReductionsInPartsGiveTheSame) {
  struct Case {
    std::vector<const char*> kinds;
    Dims dims;
    Axes axes;
    bool special = false;  // infinities and NaN
  };
  for (const Case& c : {Case{{"argmax"}, {64, 1024}, {}, true}, Case{{"argmin"}, {3, 40000}, {1}}, Case{{"max", "argmax"}, {2, 32768}, {1}},
                        Case{{"argmin", "min"}, {32768, 3}, {0}}, Case{{"sum"}, {8192, 64}, {0}}, Case{{"sum", "max"}, {4, 16, 4096}, {1, 2}}}) {
    SCOPED_TRACE(c.kinds[0]);
    Graph g;
    Handle x(&g, g.add_input("x", {DType::f32, c.dims}));
    x = floor(x * 2.0);  // many are equal
    if (c.special) x = x / select(x > 2.0, 0.0, select(equal(x, 0.0), 0.0, 1.0));
    for (const char* kind : c.kinds) g.outputs.push_back({reduce(kind, x, c.axes, drop).id(), kind, {}});
    const Graph made = after(split_reductions, g, gpu());
    EXPECT_GT(made.nodes.size(), g.nodes.size());
    expect_same(g, made);
  }
}

// Adds up `windows` windows of `kernel` elements with distance `dilation`, each `stride` after the one before.
Graph window_sum(int64_t kernel, int64_t dilation, int64_t stride, int64_t windows, int64_t rest) {
  Graph g;
  const int64_t size = (kernel - 1) * dilation + (windows - 1) * stride + 1 + rest;
  const Handle x(&g, g.add_input("x", {DType::f32, {2, kernel, kernel, windows, windows}}));
  std::vector<Handle> places;
  for (Axis i : {0, 1}) {
    Dims of_kernel(4, Dim(1)), of_windows(4, Dim(1));
    of_kernel[static_cast<size_t>(i)] = kernel;
    of_windows[static_cast<size_t>(2 + i)] = windows;
    places.push_back(ir::index(g, of_kernel, i) * dilation + ir::index(g, of_windows, 2 + i) * stride);
  }
  g.outputs.push_back({scatter(full(g, {2, size, size}, 0, DType::f32), {1, 2}, places, 1, false, x, "add").id(), "y", {}});
  return g;
}

TEST(Passes, WindowsAreGathered) {
  struct Case {
    int64_t kernel, dilation, stride, windows, rest;
    bool gathered = true;
  };
  for (const Case& c : {Case{3, 1, 1, 6, 0}, Case{3, 2, 1, 6, 2}, Case{4, 1, 2, 5, 0}, Case{7, 1, 3, 8, 1}, Case{2, 1, 3, 4, 2}, Case{3, 1, 2, 5, 1}, Case{3, 2, 2, 5, 0, false}}) {
    SCOPED_TRACE(fmt::format("{} {} {} {} {}", c.kernel, c.dilation, c.stride, c.windows, c.rest));
    const Graph g = window_sum(c.kernel, c.dilation, c.stride, c.windows, c.rest), made = after(scatter_to_gather, g, gpu());
    EXPECT_EQ(has(made, Op::scatter), !c.gathered);
    expect_same(g, made);
  }
}

// A value that is an operand twice, over and over: 2^60 ways lead to the bottom.
Handle doubled(Handle x) {
  for (int i = 0; i < 60; ++i) x = x + x;
  return x;
}

TEST(Passes, PlacesOfManyOperationsAreNoWindows) {
  Graph g;
  const Handle x(&g, g.add_input("x", {DType::f32, {3, 4}}));
  const Handle place = doubled(ir::index(g, {3, 1}, 0)) + ir::index(g, {1, 4}, 1);
  g.outputs.push_back({scatter(full(g, {8}, 0, DType::f32), {0}, {place}, 0, false, x, "add").id(), "y", {}});
  EXPECT_TRUE(has(after(scatter_to_gather, g, gpu()), Op::scatter));
}

// Two phases of 64 columns and a skip connection, whose pointwise work is squares of squares.
TEST(Passes, ColumnsOfManySquaresAreCutOnce) {
  Graph g;
  const Handle x(&g, g.add_input("x", {DType::f32, {1, 64, 64}})), skip(&g, g.add_input("skip", {DType::f32, {1, 128, 64}}));
  Weight weight;
  weight.name = "w";
  const Handle w(&g, g.add_weight(std::move(weight), {DType::f32, {64, 128}}));
  const Handle phases = view(doubled(matmul(x, w)), {{1, 64, 2, 64}, {{0, {{0, 1}}}, {0, {{1, 1}}}, {0, {{2, 64}, {3, 1}}}}, std::nullopt});
  g.outputs.push_back({concat({reshape(phases, {1, 128, 64}), skip}, 2).id(), "y", {}});
  const Graph made = after(split_columns, g, backend_for({}, {}));
  EXPECT_GT(made.nodes.size(), g.nodes.size());
  EXPECT_LT(made.nodes.size(), 3 * g.nodes.size());
}

// Windows of 3 x 3 over an image [2, height, width, c], times B.
Handle convolved(const Handle& image, const Handle& b) {
  const int64_t height = image.dims()[1].value(), width = image.dims()[2].value(), c = image.dims()[3].value();
  const Handle windows = view(image, {{2, height - 2, width - 2, 3, 3, c}, {{0, {{0, 1}}}, {0, {{1, 1}, {3, 1}}}, {0, {{2, 1}, {4, 1}}}, {0, {{5, 1}}}}, std::nullopt});
  return matmul(reshape(windows, {2, (height - 2) * (width - 2), 9 * c}), b);
}

TEST(Passes, ChannelsArePadded) {
  for (int64_t c : {12, 18, 45, 16, 9}) {
    SCOPED_TRACE(c);
    Graph g;
    auto input = [&](const char* name, Dims dims) { return Handle(&g, g.add_input(name, {DType::f16, std::move(dims)})); };
    const Handle x = input("x", {2, 42, c}), residual = input("residual", {2, 42, c}), scale = input("scale", {c}), b = input("b", {9 * c, c}), last = input("last", {9 * c, 8});
    // The first image is an output too; the second one is made of a product; where the padding of its channels is 0, exp gives 1.
    const Handle first = relu(x * scale + residual);
    const Handle second = exp(minimum(convolved(reshape(first, {2, 7, 6, c}), b) * 0.01, 1.0)) + doubled(slice(first, 1, Dim(0), Dim(20), 1) * 0.0);
    g.outputs.push_back({first.id(), "first", {}});
    g.outputs.push_back({convolved(reshape(second, {2, 5, 4, c}), last).id(), "y", {}});
    const Graph made = after(pad_input_channels, after(pad_output_channels, g, gpu()), gpu());
    int padded = 0;
    for (const Node& node : made.nodes) padded += node.op == Op::matmul && made.type(node.in[0]).dims.back() == Dim((c + 7) / 8 * 8 * 9);
    EXPECT_EQ(padded, c == 9 ? 0 : 2);
    EXPECT_LT(made.nodes.size(), 3 * g.nodes.size());
    expect_same(g, made);
  }
}

}  // namespace
}  // namespace ingot::compile
