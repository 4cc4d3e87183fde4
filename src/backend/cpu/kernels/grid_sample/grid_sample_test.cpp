// Elements at given places, with every mode, for images and grids that lie in memory in every way, against the interpreter; operands that do not fit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/kernels/kernel_test.h"
#include "base/error.h"
#include "ir/compose.h"
#include "ir/reference.h"
#include "kernels/grid_sample/run/grid_sample_args.h"

namespace ingot::kernels {
namespace {

using ir::DType;
using Mode = GridSampleArgs::Mode;
using Outside = GridSampleArgs::Outside;

constexpr const char *modes[] = {"linear", "nearest", "cubic"}, *outsides[] = {"zeros", "border", "reflection"};
constexpr float infinity = std::numeric_limits<float>::infinity();

ir::Array array_of(const TestTensor& t) {
  ir::Array out = ir::Array::empty(DType::f32, t.dims);
  size_t n = 0;
  t.each([&](const std::vector<int64_t>& at) {
    const auto v = static_cast<float>(t.get(at));
    std::memcpy(out.bytes.data() + 4 * n++, &v, 4);
  });
  return out;
}

std::vector<float> interpreted(const GridSampleArgs& args, const TestTensor& x, const TestTensor& grid) {
  ir::Graph g;
  auto input = [&](const char* name, const TestTensor& t) { return ir::Handle(&g, g.add_input(name, {DType::f32, ir::Dims(t.dims.begin(), t.dims.end())})); };
  const ir::Handle image = input("x", x), places = input("grid", grid);
  g.outputs.push_back(
      {ir::grid_sample(image, places, modes[static_cast<int>(args.mode)], outsides[static_cast<int>(args.outside)], args.corners, args.channels_last).id(), "y", {}});
  const std::vector<ir::Array> in{array_of(x), array_of(grid)};
  const ir::Array y = ir::interpret(g, in)[0];
  std::vector<float> out(y.bytes.size() / 4);
  std::memcpy(out.data(), y.bytes.data(), y.bytes.size());
  return out;
}

// Places inside and outside, some of them exactly on elements. They are multiples of 1 / 64, so that a place is the same number in f32 and in double if sizes are powers of two.
void fill_with_places(TestTensor& grid) {
  uint32_t h = 1;
  grid.each([&](const std::vector<int64_t>& at) {
    h = h * 1664525u + 1013904223u;
    grid.put(at, static_cast<double>((h >> 16) % 193) / 64 - 1.5);
  });
}

struct Layouts {
  const char* name;
  std::vector<size_t> x, grid, y;
};

TEST(grid_sample, every_mode_whatever_the_strides) {
  const Layouts all[] = {{"row-major", {}, {}, {}},
                         {"channels last", {0, 2, 3, 1}, {}, {}},
                         {"channels last twice", {0, 2, 3, 1}, {}, {0, 2, 3, 1}},
                         {"planes of the grid", {}, {3, 0, 1, 2}, {}},
                         {"columns first", {0, 1, 3, 2}, {0, 2, 1, 3}, {1, 0, 3, 2}}};
  for (const Layouts& l : all) {
    for (int64_t channels : {1, 3, 16, 21}) {
      for (auto [h, w] : {std::pair<int64_t, int64_t>{4, 8}, {1, 1}, {1, 2}, {16, 1}}) {
        TestTensor x(DType::f32, {2, channels, h, w}, l.x, {}, 1), grid(DType::f32, {2, 7, 11, 2}, l.grid, {}, 1);
        fill_with_integers(x, 1);
        fill_with_places(grid);
        for (Mode mode : {Mode::linear, Mode::nearest, Mode::cubic}) {
          for (Outside outside : {Outside::zeros, Outside::border, Outside::reflection}) {
            for (bool corners : {false, true}) {
              if (corners && mode == Mode::nearest && h * w != 2 && h * w != 1) continue;  // places are not the same numbers in f32
              SCOPED_TRACE(testing::Message() << l.name << ", " << channels << " channels of " << h << " x " << w << ", " << modes[static_cast<int>(mode)] << ", "
                                              << outsides[static_cast<int>(outside)] << ", corners " << corners);
              const GridSampleArgs args{mode, outside, corners, false, 2};
              TestTensor y(DType::f32, {2, channels, 7, 11}, l.y, {}, 1);
              run_kernel("grid_sample", serialise(args), {&x, &grid, &y}, {}, three());
              ASSERT_TRUE(y.untouched_outside());
              const std::vector<float> want = interpreted(args, x, grid);
              const std::vector<double> found = y.values();
              for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(found[i], static_cast<double>(want[i]), 4e-5) << "element " << i;
            }
          }
        }
      }
    }
  }
}

// More points than a block has, in each thread.
TEST(grid_sample, many_points) {
  TestTensor x(DType::f32, {1, 17, 8, 8}), grid(DType::f32, {1, 1500, 2}), y(DType::f32, {1, 1500, 17});
  fill_with_integers(x, 2);
  fill_with_places(grid);
  for (Mode mode : {Mode::linear, Mode::nearest, Mode::cubic}) {
    const GridSampleArgs args{mode, Outside::border, false, true, 2};
    run_kernel("grid_sample", serialise(args), {&x, &grid, &y}, {}, three());
    const std::vector<float> want = interpreted(args, x, grid);
    const std::vector<double> found = y.values();
    for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(found[i], static_cast<double>(want[i]), 4e-5) << modes[static_cast<int>(mode)] << " element " << i;
  }
}

// An element that a point does not read may be anything, and a place that is not a number gives none.
TEST(grid_sample, infinities_and_nan) {
  for (int64_t channels : {1, 16}) {
    for (bool together : {false, true}) {
      TestTensor x(DType::f32, {1, channels, 2, 8}, together ? std::vector<size_t>{0, 2, 3, 1} : std::vector<size_t>{}), grid(DType::f32, {1, 1, 4, 2}),
          y(DType::f32, {1, channels, 1, 4});
      x.each([&](const std::vector<int64_t>& at) { x.put(at, at[3] >= 1 && at[3] <= 6 ? infinity : 1); });
      // Half a pixel to the left of the first column, half a pixel to the right of the last, far away, and nowhere.
      const double places[][2] = {{-1, -0.5}, {1, -0.5}, {1e30, 0}, {std::nan(""), 0}};
      for (int64_t p = 0; p < 4; ++p) {
        for (int64_t d = 0; d < 2; ++d) grid.put({0, 0, p, d}, places[p][d]);
      }
      run_kernel("grid_sample", serialise(GridSampleArgs{Mode::linear, Outside::zeros, false, false, 2}), {&x, &grid, &y}, {}, inline_workers());
      for (int64_t c = 0; c < channels; ++c) {
        EXPECT_EQ(y.get({0, c, 0, 0}), 0.5);
        EXPECT_EQ(y.get({0, c, 0, 1}), 0.5);
        EXPECT_EQ(y.get({0, c, 0, 2}), 0);
        EXPECT_TRUE(std::isnan(y.get({0, c, 0, 3})));
      }
    }
  }
}

TEST(grid_sample, operands_that_do_not_fit_are_refused) {
  TestTensor x(DType::f32, {2, 3, 4, 5}), grid(DType::f32, {2, 6, 2}), y(DType::f32, {2, 6, 3}), none(DType::f32, {2, 3, 0, 5}), half(DType::f16, {2, 3, 4, 5}),
      other(DType::f32, {2, 7, 3}), deep(DType::f32, {2, 6, 3});
  auto run = [](const GridSampleArgs& args, std::vector<TestTensor*> operands) { run_kernel("grid_sample", serialise(args), operands, {}, inline_workers()); };
  fill_with_places(grid);
  run({}, {&x, &grid, &y});
  EXPECT_THROW(run({}, {&x, &grid, &other}), Error);
  EXPECT_THROW(run({}, {&none, &grid, &y}), Error);
  EXPECT_THROW(run({}, {&half, &grid, &y}), Error);
  EXPECT_THROW(run({}, {&x, &deep, &y}), Error);
  EXPECT_THROW(run({}, {&x, &grid}), Error);
  EXPECT_THROW(run({.axes = 3}, {&x, &grid, &y}), Error);
  EXPECT_THROW(parse_grid_sample({}), Error);
  std::vector<std::byte> wrong = serialise(GridSampleArgs{});
  wrong[0] = std::byte{3};
  EXPECT_THROW(parse_grid_sample(wrong), Error);
}

}  // namespace
}  // namespace ingot::kernels
