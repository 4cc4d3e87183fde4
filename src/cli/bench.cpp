#include <simdjson.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "command.h"

namespace ingot::cli {

namespace {

struct BenchArguments {
  Source plan;
  StateSource state;
  std::string against, trace, device = "auto";
  std::vector<std::string> shapes, settings;
  int threads = 0, warmup = 3;
  double seconds = 2;
  bool json = false, steps = false;
};

// The state that each run begins with; null: the session's own, with the plan's values.
State start_of(const Runner& runner) {
  ingot_state* made = nullptr;
  if (runner.state != nullptr) check(ingot_state_fork(runner.state.get(), &made));
  return State(made);
}

// Each run reads and writes the same places of caches, and none runs past their end. Not timed.
void rewind(Runner& runner, const State& start) {
  if (start != nullptr) {
    check(ingot_state_copy(runner.state.get(), start.get()));
  } else if (!runner.function.states.empty()) {
    check(ingot_session_reset(runner.session.get()));
  }
}

// Prints the time per label of steps, in order of first appearance.
void print_steps(Runner& runner, const State& start, double seconds) {
  struct Sum {
    std::string kernel, sizes;
    int64_t steps = 0, bytes = 0;
    double ms = 0, flops = 0;
  };
  std::vector<std::pair<std::string, Sum>> sums;
  int runs = 0;
  check(ingot_session_profile(runner.session.get(), 1, nullptr));
  for (auto begin = std::chrono::steady_clock::now(); runs == 0 || std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds; ++runs) {
    rewind(runner, start);
    runner.run();
    char* text = nullptr;
    check(ingot_session_profile(runner.session.get(), 1, &text));
    std::string json = take(text);
    simdjson::dom::parser parser;
    simdjson::dom::element document = parser.parse(json);
    for (auto step : simdjson::dom::array(document["steps"])) {
      std::string kernel = std::string(std::string_view(step["kernel"]));
      std::string sizes;
      double work = kernel == "matmul" || kernel.starts_with("conv_") ? 2 : 0;
      size_t k = 0;
      for (int64_t size : simdjson::dom::array(step["sizes"])) {
        if (k++ >= 3) break;
        sizes += (sizes.empty() ? "" : "x") + std::to_string(size);
        work *= static_cast<double>(size);
      }
      std::string key = std::string(std::string_view(step["label"])) + " " + sizes;
      auto at = std::find_if(sums.begin(), sums.end(), [&](const auto& s) { return s.first == key; });
      if (at == sums.end()) at = sums.insert(sums.end(), {key, Sum{kernel, sizes}});
      at->second.steps += 1;
      at->second.bytes += int64_t(step["bytes"]);
      at->second.ms += static_cast<double>(int64_t(step["nanoseconds"])) * 1e-6;
      at->second.flops += work;
    }
  }
  check(ingot_session_profile(runner.session.get(), 0, nullptr));
  double total = 0;
  for (const auto& [key, s] : sums) total += s.ms;
  std::printf("%9s %6s %6s %9s %9s  %s\n", "ms a run", "share", "steps", "GFLOP/s", "GB/s", "step");
  for (const auto& [key, s] : sums) {
    std::printf("%9.4f %5.1f%% %6lld %9.1f %9.1f  %s: %s\n", s.ms / runs, 100 * s.ms / total, static_cast<long long>(s.steps / runs), s.flops / s.ms * 1e-6,
                static_cast<double>(s.bytes) / s.ms * 1e-6, s.kernel.c_str(), key.c_str());
  }
}

void print(const char* name, std::vector<double>& times, bool json) {
  std::sort(times.begin(), times.end());
  double median = times[times.size() / 2];
  if (json) {
    std::printf("{\"plan\": \"%s\", \"median_ms\": %.4f, \"min_ms\": %.4f, \"p95_ms\": %.4f, \"runs\": %zu}\n", name, median, times[0], times[times.size() * 95 / 100],
                times.size());
  } else {
    std::printf("%s: median %.3f ms, fastest %.3f ms, 95%% %.3f ms, %zu runs\n", name, median, times[0], times[times.size() * 95 / 100], times.size());
  }
}

void bench(const BenchArguments& a) {
  std::vector<Source> plans{a.plan};
  if (!a.against.empty()) plans.emplace_back(a.plan).path = a.against;
  std::vector<std::unique_ptr<Runner>> runners;
  std::vector<State> starts;
  for (const Source& p : plans) {
    runners.push_back(std::make_unique<Runner>(p, a.threads, a.device, 0, a.settings));
    runners.back()->use(a.state);
    runners.back()->fill({}, a.shapes);
    starts.push_back(start_of(*runners.back()));
    for (int i = 0; i < a.warmup; ++i) {
      rewind(*runners.back(), starts.back());
      runners.back()->run();
    }
  }
  std::vector<std::vector<double>> times(runners.size());
  auto now = [] { return std::chrono::steady_clock::now(); };
  // Interleaved, so that all runners see the same machine.
  for (auto start = now(); std::chrono::duration<double>(now() - start).count() < a.seconds * static_cast<double>(runners.size());) {
    for (size_t r = 0; r < runners.size(); ++r) {
      rewind(*runners[r], starts[r]);
      auto t = now();
      runners[r]->run();
      times[r].push_back(std::chrono::duration<double, std::milli>(now() - t).count());
    }
  }
  if (!a.trace.empty()) {
    rewind(*runners[0], starts[0]);
    runners[0]->trace(a.trace);
  }
  if (a.steps) print_steps(*runners[0], starts[0], a.seconds);
  for (size_t r = 0; r < runners.size(); ++r) print(plans[r].path.c_str(), times[r], a.json);
}

}  // namespace

void add_bench(CLI::App& app) {
  auto a = std::make_shared<BenchArguments>();
  CLI::App* verb = app.add_subcommand("bench", "Time a plan on random inputs.");
  a->plan.add_to(*verb);
  verb->add_option("--against", a->against, "another plan, run alternately with the first");
  verb->add_option("--shape", a->shapes, "shape of an input: NAME=2,16");
  a->state.add_to(*verb);
  verb->add_option("--seconds", a->seconds, "how long")
      ->check(
          [](const std::string& text) {
            double value = 0;
            return CLI::detail::lexical_cast(text, value) && std::isfinite(value) && value > 0 ? std::string() : "\"" + text + "\" is not a number above 0";
          },
          "POSITIVE");
  verb->add_option("--warmup", a->warmup, "runs that do not count")->check(not_negative);
  verb->add_option("--device", a->device, "cpu, cuda, cuda:1, reference; auto = the CPU when the plan has a program for it, else the first GPU");
  verb->add_option("--set", a->settings, "NAME=VALUE: any option for running, such as memory_bytes=4000000000");
  verb->add_option("--threads", a->threads, "0 = all that may be used")->check(not_negative);
  verb->add_flag("--steps", a->steps, "where the time goes, step by step");
  verb->add_option("--trace", a->trace, "where to write one run of the plan as a trace (JSON for Perfetto)");
  verb->add_flag("--json", a->json, "one JSON line a plan");
  verb->callback([a] { bench(*a); });
}

}  // namespace ingot::cli
