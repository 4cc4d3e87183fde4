// Chains of views, with what stands between them, keep their meaning through every pass.
#include <gtest/gtest.h>

#include "ir/random_views_test.h"
#include "lower/lower.h"

namespace ingot::lower {
namespace {

using ir::RandomViews;

// "" where a graph computes what the chain says, at every setting of its symbols.
std::string difference(const RandomViews& chain, const ir::Graph& g) {
  for (size_t s = 0; s < chain.settings.size(); ++s) {
    const std::vector<ir::Array> found = ir::interpret(g, chain.inputs(s));
    for (size_t i = 0; i < found.size(); ++i) {
      if (std::string text = chain.difference(i, s, found[i]); !text.empty()) return text;
    }
  }
  return "";
}

void check(uint32_t seed, RandomViews::Kind kind) {
  const RandomViews chain(seed, kind);
  SCOPED_TRACE("seed " + std::to_string(seed) + ": " + chain.text);
  std::string stage = "as it was built";
  try {
    ir::Graph g = chain.graph;
    ir::verify(g, ir::Level::canonical);
    ASSERT_EQ(difference(chain, g), "") << stage;
    for (const Pass& pass : passes()) {
      stage = pass.name;
      const std::string before = ir::print(g);
      pass.run(g);
      g.remove_unused();
      if (ir::print(g) == before) continue;
      ir::verify(g, ir::Level::canonical);
      ASSERT_EQ(difference(chain, g), "") << "after " << stage << "\n" << before << "--\n" << ir::print(g);
    }
  } catch (const Error& e) {
    FAIL() << stage << ": " << e.message;
  }
}

TEST(Views, KeepTheirMeaning) {
  for (uint32_t seed = 0; seed < ir::chains(4000) && !HasFailure(); ++seed) check(seed, RandomViews::views);
}

TEST(Views, KeepTheirMeaningAmongOtherWork) {
  for (uint32_t seed = 0; seed < ir::chains(6000) && !HasFailure(); ++seed) check(seed, RandomViews::work);
}

}  // namespace
}  // namespace ingot::lower
