#include <algorithm>
#include <chrono>
#include <cstdio>

#include "command.h"

namespace ingot::cli {

namespace {

struct Arguments {
  std::string plan, against;
  std::vector<std::string> shapes;
  int threads = 0, warmup = 3;
  double seconds = 2;
  bool json = false;
};

void print(const char* name, std::vector<double>& times, bool json) {
  std::sort(times.begin(), times.end());
  double median = times[times.size() / 2];
  if (json) {
    std::printf("{\"plan\": \"%s\", \"median_ms\": %.4f, \"min_ms\": %.4f, \"p95_ms\": %.4f, \"runs\": %zu}\n", name, median, times[0], times[times.size() * 95 / 100], times.size());
  } else {
    std::printf("%s: median %.3f ms, fastest %.3f ms, 95%% %.3f ms, %zu runs\n", name, median, times[0], times[times.size() * 95 / 100], times.size());
  }
}

void run(const Arguments& a) {
  std::vector<std::string> paths{a.plan};
  if (!a.against.empty()) paths.push_back(a.against);
  std::vector<std::unique_ptr<Runner>> runners;
  for (const std::string& p : paths) {
    runners.push_back(std::make_unique<Runner>(p, a.threads));
    runners.back()->fill({}, a.shapes);
    for (int i = 0; i < a.warmup; ++i) runners.back()->run();
  }
  std::vector<std::vector<double>> times(runners.size());
  auto now = [] { return std::chrono::steady_clock::now(); };
  // In turn, so that all see the same machine.
  for (auto start = now(); std::chrono::duration<double>(now() - start).count() < a.seconds * static_cast<double>(runners.size());) {
    for (size_t r = 0; r < runners.size(); ++r) {
      auto t = now();
      runners[r]->run();
      times[r].push_back(std::chrono::duration<double, std::milli>(now() - t).count());
    }
  }
  for (size_t r = 0; r < runners.size(); ++r) print(paths[r].c_str(), times[r], a.json);
}

}  // namespace

void add_bench(CLI::App& app) {
  auto a = std::make_shared<Arguments>();
  CLI::App* verb = app.add_subcommand("bench", "Time a plan on random inputs.");
  verb->add_option("plan", a->plan, "the plan")->required();
  verb->add_option("--against", a->against, "another plan, run in turn with the first");
  verb->add_option("--shape", a->shapes, "shape of an input: NAME=2,16");
  verb->add_option("--seconds", a->seconds, "how long")->check(CLI::PositiveNumber);
  verb->add_option("--warmup", a->warmup, "runs that do not count")->check(CLI::NonNegativeNumber);
  verb->add_option("--threads", a->threads, "0 = all that may be used")->check(CLI::NonNegativeNumber);
  verb->add_flag("--json", a->json, "one JSON line a plan");
  verb->callback([a] { run(*a); });
}

}  // namespace ingot::cli
