#include "pipeline.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "compile/compile.h"
#include "lower/lower.h"

namespace ingot {

namespace {

void dump(std::string_view name, int number, const ir::Graph& g) {
  const char* folder = std::getenv("INGOT_DUMP");
  if (folder == nullptr || *folder == '\0') return;
  std::ofstream file(fmt::format("{}/{:02}_{}.txt", folder, number, name));
  file << ir::print(g);
}

void report(std::string_view stage, double seconds) {
  const char* level = std::getenv("INGOT_LOG");
  if (level == nullptr || (std::strcmp(level, "info") != 0 && std::strcmp(level, "debug") != 0)) return;
  std::fprintf(stderr, "ingot: %-24.*s %8.2f ms\n", static_cast<int>(stage.size()), stage.data(), seconds * 1e3);
}

}  // namespace

plan::Plan build(const capture::Model& model, const compile::Options& options, const std::function<bool(std::string_view, double)>& progress) {
  auto now = [] { return std::chrono::steady_clock::now(); };
  if (progress && !progress("lower", 0)) fail(Code::cancelled, "the build was cancelled");
  int number = 0;
  dump("captured", number++, model.graph);
  ir::Graph canonical = lower::lower(model.graph, [&](std::string_view pass, double seconds, const ir::Graph& g) {
    report(pass, seconds);
    dump(pass, number++, g);
  });
  auto start = now();
  plan::Plan plan = compile::compile(canonical, options, progress);
  plan.signature = model.signature;
  plan::verify(plan);
  report("compile", std::chrono::duration<double>(now() - start).count());
  return plan;
}

}  // namespace ingot
