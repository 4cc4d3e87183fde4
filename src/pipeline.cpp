#include "pipeline.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "compile/compile.h"
#include "lower/lower.h"
#include "partition/partition.h"

namespace ingot {

namespace {

void dump(std::string_view name, int number, const ir::Graph& g) {
  const char* folder = std::getenv("INGOT_DUMP");
  if (folder == nullptr || *folder == '\0') return;
  std::string path = fmt::format("{}/{:02}_{}.txt", folder, number, name);
  std::error_code ignored;  // opening the file tells
  std::filesystem::create_directories(folder, ignored);
  std::ofstream file(path);
  file << ir::print(g) << std::flush;
  if (!file) throw Error(Code::io, fmt::format("INGOT_DUMP: cannot write {}", path)).fix("name a folder that can be written, or unset INGOT_DUMP");
}

void report(std::string_view stage, double seconds, const ir::Graph* g = nullptr) {
  const char* level = std::getenv("INGOT_LOG");
  if (level == nullptr || *level == '\0') return;
  bool debug = std::strcmp(level, "debug") == 0;
  if (!debug && std::strcmp(level, "info") != 0) throw Error(Code::invalid_option, fmt::format("INGOT_LOG is \"{}\"; \"info\" or \"debug\" is needed", level)).fix("unset it to hear nothing");
  std::string size = debug && g != nullptr ? fmt::format("  {} nodes", g->nodes.size()) : "";
  std::fprintf(stderr, "ingot: %-24.*s %8.2f ms%s\n", static_cast<int>(stage.size()), stage.data(), seconds * 1e3, size.c_str());
}

// Everything the operator table refuses, and where the rest goes. A segment is a graph with less around it, so a row may refuse there what it
// takes in the whole graph: then that node stays in torch too.
struct Choice {
  std::vector<partition::Refused> refused;
  partition::Settings settings;
  partition::Partition partition;
};

Choice choose(const ir::Graph& g, const compile::Options& options) {
  Choice c;
  c.settings = {options.integer("min_block_size"), options.list("torch_executed_ops"), options.list("torch_executed_modules")};
  for (lower::Missing& m : lower::missing_rows(g)) c.refused.push_back({m.node, std::move(m.reason)});
  for (;;) {
    c.partition = partition::partition(g, c.refused, c.settings);
    if (c.partition.whole) return c;
    size_t before = c.refused.size();
    for (const partition::Segment& s : c.partition.segments) {
      ir::Graph part = partition::extract(g, s);
      size_t rows = 0;
      std::vector<ir::NodeId> original(part.nodes.size(), ir::none_id);
      for (size_t n = 0; n < part.nodes.size(); ++n) {
        if (part.nodes[n].op == ir::Op::row) original[n] = s.nodes[rows++];
      }
      for (lower::Missing& m : lower::missing_rows(part)) c.refused.push_back({original[m.node], std::move(m.reason)});
    }
    if (c.refused.size() == before) return c;
    std::stable_sort(c.refused.begin(), c.refused.end(), [](const auto& a, const auto& b) { return a.node < b.node; });
  }
}

ir::Graph lowered(const ir::Graph& captured, std::string_view name, int& number) {
  return lower::lower(captured, [&](std::string_view pass, double seconds, const ir::Graph& g) {
    report(pass, seconds, &g);
    dump(name.empty() ? std::string(pass) : fmt::format("{}_{}", name, pass), number++, g);
  });
}

}  // namespace

plan::Plan build(const capture::Model& model, const compile::Options& options, const std::function<bool(std::string_view, double)>& progress) {
  auto now = [] { return std::chrono::steady_clock::now(); };
  if (options.text("dryrun") != "false") throw Error(Code::invalid_option, "with dryrun nothing is built").fix("ingot_explain gives the report");
  if (progress && !progress("lower", 0)) fail(Code::cancelled, "the build was cancelled");
  int number = 0;
  dump("captured", number++, model.graph);
  std::vector<compile::NamedGraph> functions;
  if (options.text("fallback") == "error") {
    functions.push_back({"forward", lowered(model.graph, "", number)});  // refuses what is missing, all at once
  } else {
    auto start = now();
    Choice c = choose(model.graph, options);
    report("partition", std::chrono::duration<double>(now() - start).count());
    if (c.partition.segments.empty() && !c.partition.whole) fail(Code::unsupported, "no part of the model gains by an engine:\n{}", partition::report_text(model.graph, c.partition, c.refused, c.settings));
    if (c.partition.whole) {
      functions.push_back({"forward", lowered(model.graph, "", number)});
    } else {
      for (size_t i = 0; i < c.partition.segments.size(); ++i) {
        std::string name = fmt::format("segment_{}", i);
        functions.push_back({name, lowered(partition::extract(model.graph, c.partition.segments[i]), name, number)});
      }
    }
  }
  auto start = now();
  plan::Plan plan = compile::compile(functions, options, progress);
  plan.signature = model.signature;
  plan::verify(plan);
  report("compile", std::chrono::duration<double>(now() - start).count());
  return plan;
}

std::string explain(const capture::Model& model, const compile::Options& options) {
  Choice c = choose(model.graph, options);
  return partition::report_json(model.graph, c.partition, c.refused, c.settings);
}

}  // namespace ingot
