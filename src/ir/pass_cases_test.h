// Passes tested by data: PASS.test in a pipeline's testdata holds cases "== name", options of the build "name=value" (one a line, or none), a graph, "--", the graph that the pass makes of it.
// Each case is also computed before and after by the reference interpreter. INGOT_UPDATE=1 writes what the passes make into the files.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "ir/graph_cases_test.h"
#include "ir/pass.h"

namespace ingot::ir {

// The passes that have a file in the folder.
inline std::vector<std::string> tested_passes(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".test") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// `run(graph, options)` is the pass, `compare(found, wanted)` compares a result after it with the one before.
template <class Run, class Compare>
void test_cases(const std::string& folder, const std::string& pass, Run run, Compare compare) {
  const std::string path = folder + pass + ".test";
  const std::vector<GraphCase> cases = read_cases(path);
  const bool is_updated = std::getenv("INGOT_UPDATE") != nullptr;
  std::string updated;
  size_t unchanged = 0;
  ASSERT_FALSE(cases.empty()) << path;
  for (const GraphCase& c : cases) {
    SCOPED_TRACE(c.name);
    Graph before = parse(c.graph);
    verify(before, Level::canonical);
    std::mt19937 random(7);
    std::vector<int64_t> sizes;
    for (const Symbol& s : before.symbols) sizes.push_back(s.opt);
    add_weights(before, random);
    Graph after = before;
    run(after, c.options);
    after.remove_unused();
    verify(after, Level::canonical);
    const std::string text = print(after);
    unchanged += text == print(before);
    updated += "== " + c.name + "\n";
    for (const auto& [name, value] : c.options) updated += name + "=" + value + "\n";
    updated += c.graph + "--\n" + text;
    if (!is_updated) {
      EXPECT_EQ(text, c.expected);
    }
    std::vector<Array> inputs;
    for (const Input& i : before.inputs) inputs.push_back(random_array(before.type(i.value), sizes, random));
    const std::vector<Array> wanted = interpret(before, inputs), found = interpret(after, inputs);
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < found.size(); ++i) {
      SCOPED_TRACE("output " + std::to_string(i));
      compare(found[i], wanted[i]);
    }
  }
  EXPECT_GT(unchanged, 0u) << path << " has no case in which the pass does nothing";
  if (is_updated) std::ofstream(path) << updated;
}

}  // namespace ingot::ir
