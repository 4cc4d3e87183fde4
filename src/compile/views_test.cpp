// Chains of views: the layouts that they get, and what compiled plans compute from them.
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "compile/buffer_view.h"
#include "compile/compile.h"
#include "ir/random_views_test.h"
#include "lower/lower.h"
#include "runtime/session.h"

namespace ingot::compile {
namespace {

using ir::Dim;
using ir::Dims;
using ir::RandomViews;
using Sizes = RandomViews::Sizes;

// The offset of every element of a layout, in row-major order of its indices.
Sizes places(const StridedLayout& w, const Sizes& setting) {
  Sizes dims, strides, out;
  for (const Dim& d : w.dims) dims.push_back(d.evaluate(setting));
  for (const Dim& d : w.strides) strides.push_back(d.evaluate(setting));
  const int64_t count = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>()), start = w.offset.evaluate(setting);
  Sizes index(dims.size(), 0);
  for (int64_t n = 0; n < count; ++n) {
    out.push_back(std::inner_product(index.begin(), index.end(), strides.begin(), start));
    for (size_t d = index.size(); d-- > 0 && ++index[d] == dims[d];) index[d] = 0;
  }
  return out;
}

// Dense in a random order of axes; if `wide`, with gaps between rows.
StridedLayout some_layout(const Dims& dims, std::mt19937& random, bool wide) {
  std::vector<size_t> order(dims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (random() % 3 != 0) std::shuffle(order.begin(), order.end(), random);
  StridedLayout w{dims, Dims(dims.size(), Dim(0)), wide ? Dim(5) : Dim(0)};
  Dim stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    w.strides[order[i]] = stride;
    stride *= dims[order[i]] + Dim(wide && random() % 2 == 0 ? 3 : 0);
  }
  return w;
}

TEST(Views, LieWhereTheirWindowsSay) {
  size_t followed = 0, all = 0;
  for (uint32_t seed = 0; seed < ir::chains(4000) && !HasFailure(); ++seed) {
    const RandomViews chain(seed, RandomViews::views);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + chain.text);
    std::mt19937 random(seed);
    const StridedLayout input = some_layout(chain.items[0].value.dims(), random, seed % 2 == 0);
    std::vector<std::optional<StridedLayout>> windows(chain.graph.values.size());
    windows[chain.items[0].value.id()] = input;
    for (const ir::Node& n : chain.graph.nodes) {
      if (n.op != ir::Op::view && n.op != ir::Op::reshape) continue;
      if (const auto& w = windows[n.in[0]]) windows[n.out[0]] = through(*w, chain.graph, n);
    }
    for (const RandomViews::Item& item : chain.items) {
      const std::optional<StridedLayout>& w = windows[item.value.id()];
      ++all;
      followed += w.has_value();
      for (size_t s = 0; w && s < chain.settings.size(); ++s) {
        const Sizes of_input = places(input, chain.settings[s]);
        Sizes wanted;
        for (int64_t n : item.numbers[s].at) wanted.push_back(of_input[static_cast<size_t>(n)]);
        ASSERT_EQ(places(*w, chain.settings[s]), wanted) << "at setting " << s;
      }
    }
  }
  EXPECT_GT(followed * 2, all);
}

// The layout that an operand must have so that its view has a given one.
TEST(Views, LieWhereTheyAreWanted) {
  size_t found = 0;
  for (uint32_t seed = 0; seed < ir::chains(4000) && !HasFailure(); ++seed) {
    const RandomViews chain(seed, RandomViews::views);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + chain.text);
    std::mt19937 random(seed);
    for (const RandomViews::Item& item : chain.items) {
      const ir::Node& n = chain.graph.producer(item.value.id());
      if (n.in.empty() || n.in[0] != chain.items[0].value.id()) continue;
      const Dims& operand = chain.items[0].value.dims();
      const StridedLayout wanted = some_layout(item.value.dims(), random, seed % 2 == 0);
      const std::optional<StridedLayout> before = n.op == ir::Op::reshape ? through_reshape(wanted, operand) : before_view(wanted, n.attributes.map("map"), operand);
      if (!before) continue;
      ++found;
      for (size_t s = 0; s < chain.settings.size(); ++s) {
        // An element of the operand that the view contains has the view's offset, and no other element has that offset.
        const Sizes of_view = places(wanted, chain.settings[s]), of_operand = places(*before, chain.settings[s]);
        for (size_t i = 0; i < of_view.size(); ++i) ASSERT_EQ(of_operand[static_cast<size_t>(item.numbers[s].at[i])], of_view[i]) << "at setting " << s;
        ASSERT_EQ(std::set<int64_t>(of_operand.begin(), of_operand.end()).size(), of_operand.size()) << "at setting " << s;
      }
    }
  }
  EXPECT_GT(found, 1000u);
}

void run_plan(uint32_t seed, RandomViews::Kind kind, bool lowered) {
  const RandomViews chain(seed, kind);
  SCOPED_TRACE("seed " + std::to_string(seed) + ": " + chain.text);
  ir::Graph g = chain.graph;
  try {
    for (const lower::Pass& pass : lower::passes()) {
      if (!lowered) break;
      pass.run(g);
      g.remove_unused();
    }
    auto plan = std::make_shared<const plan::Plan>(compile(g, {}));
    runtime::Session session(std::make_shared<runtime::Weights>(plan, 1), 0, {1});
    for (size_t s = 0; s < chain.settings.size(); ++s) {
      auto host = [](ir::Array& a) { return runtime::HostTensor{a.bytes.data(), a.dtype, static_cast<int>(a.dims.size()), a.dims.data(), nullptr}; };
      std::vector<ir::Array> inputs = chain.inputs(s), outputs;
      for (size_t o : chain.outputs) outputs.push_back(chain.array(chain.items[o].numbers[s]));
      std::vector<runtime::HostTensor> in, out;
      for (ir::Array& a : inputs) in.push_back(host(a));
      for (ir::Array& a : outputs) {
        std::fill(a.bytes.begin(), a.bytes.end(), std::byte{0x5a});
        out.push_back(host(a));
      }
      session.run(in, out);
      for (size_t o = 0; o < outputs.size(); ++o) ASSERT_EQ(chain.difference(o, s, outputs[o]), "") << ir::print(g);
    }
  } catch (const Error& e) {
    FAIL() << e.message << "\n" << ir::print(g);
  }
}

TEST(Views, PlansOfThemAreRight) {
  for (uint32_t seed = 0; seed < ir::chains(1500) && !HasFailure(); ++seed) run_plan(seed, RandomViews::views, seed % 2 == 0);
}

TEST(Views, PlansOfThemAmongOtherWorkAreRight) {
  for (uint32_t seed = 0; seed < ir::chains(3000) && !HasFailure(); ++seed) run_plan(seed, RandomViews::work, seed % 3 != 0);
}

}  // namespace
}  // namespace ingot::compile
