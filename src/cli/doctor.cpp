#include <simdjson.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/own_file.h"
#include "command.h"

namespace ingot::cli {

namespace {

bool matches(const std::string& pattern, std::string_view text) {
  if (pattern.empty() || pattern == "*") return true;
  std::string p = pattern;
  while (!p.empty() && p.back() == '*') p.pop_back();
  while (!p.empty() && p.front() == '*') p.erase(0, 1);
  return text.find(p) != std::string_view::npos;
}

// Prints a problem and its remedy, in the form of errors.
void print_problem(const std::string& name, simdjson::dom::element of) {
  const std::string remedy = text_of(of["remedy"]);
  std::printf("%s: %s\n", name.c_str(), text_of(of["problem"]).c_str());
  if (!remedy.empty()) std::printf("  remedy: %s\n", remedy.c_str());
}

void print_gpus(simdjson::dom::element machine) {
  size_t number = 0;
  for (auto gpu : simdjson::dom::array(machine["gpus"])) {
    const std::string name = "GPU " + std::to_string(number++);
    if (gpu["problem"].error() == simdjson::SUCCESS) {
      print_problem("GPUs", gpu);
    } else {
      std::printf("%s: %s, %s, %.1f GB\n", name.c_str(), text_of(gpu["name"]).c_str(), text_of(gpu["architecture"]).c_str(), double(uint64_t(gpu["memory"])) * 1e-9);
    }
  }
  if (number == 0) std::puts("GPUs: none");
  for (auto library : simdjson::dom::array(machine["libraries"])) {
    const std::string name = text_of(library["name"]);
    if (library["problem"].error() == simdjson::SUCCESS) {
      print_problem(name, library);
    } else {
      std::printf("%s: %s, %s\n", name.c_str(), text_of(library["version"]).c_str(), text_of(library["path"]).c_str());
    }
  }
}

// A list of overloads that the library describes, with one of its columns.
void print_overloads(ingot_status (*describe)(char**), const char* column, const std::string& pattern, bool json) {
  char* text = nullptr;
  check(describe(&text));
  std::string all = take(text);
  if (json) {
    std::puts(all.c_str());
    return;
  }
  simdjson::dom::parser parser;
  simdjson::dom::array list = simdjson::dom::element(parser.parse(all));
  size_t shown = 0;
  for (auto op : list) {
    auto name = text_of(op["name"]);
    if (!matches(pattern, name)) continue;
    ++shown;
    std::printf("%-48s %s\n", name.c_str(), text_of(op[column]).c_str());
  }
  std::printf("%zu of %zu overloads\n", shown, list.size());
}

// Measures this machine's rates and writes them where option machine=measured reads them: the path.
std::string keep_rates(int threads) {
  const std::string path = cache_folder("machine.json");
  if (path.empty()) throw Failure{10 + INGOT_IO, "there is no folder for caches: set INGOT_CACHE_DIR"};
  if (const auto problem = make_own_folder(std::filesystem::path(path).parent_path().string())) throw Failure{10 + INGOT_IO, *problem};
  char* text = nullptr;
  check(ingot_measure_rates(threads, 2, &text));
  const std::string rates = take(text) + "\n";
  const std::span<const std::byte> whole = std::as_bytes(std::span(rates.data(), rates.size()));
  write_file(path, {&whole, 1}, own_file_mode);
  return path;
}

}  // namespace

void add_ops(CLI::App& app) {
  auto pattern = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  auto missing = std::make_shared<bool>(false);
  CLI::App* verb = app.add_subcommand("ops", "List the operators that have an engine.");
  verb->add_option("pattern", *pattern, "part of a name");
  verb->add_flag("--json", *json, "the whole table as JSON");
  verb->add_flag("--missing", *missing, "the overloads of ATen that have none, with the reason");
  verb->callback([=] { print_overloads(*missing ? ingot_ops_describe_absent : ingot_ops_describe, *missing ? "reason" : "family", *pattern, *json); });
}

void add_doctor(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  auto measure = std::make_shared<bool>(false);
  auto keep = std::make_shared<bool>(false);
  auto threads = std::make_shared<int>(0);
  CLI::App* verb = app.add_subcommand("doctor", "What this machine offers and what was found.");
  verb->add_flag("--json", *json, "as JSON");
  CLI::Option* measuring = verb->add_flag("--measure", *measure, "multiply-adds and bytes a second, measured for two seconds");
  verb->add_flag("--keep", *keep, "measure for two seconds more what option machine=measured chooses by, and keep it next to the cache of plans")->needs(measuring);
  verb->add_option("--threads", *threads, "of the measurement; 0 = all that may be used")->check(not_negative);
  verb->callback([=] {
    char* text = nullptr;
    check(ingot_describe_machine(&text));
    std::string machine = take(text), limits;
    if (*measure) {
      check(ingot_measure_machine(*threads, 2, &text));
      limits = take(text);
    }
    const std::string kept = *keep ? keep_rates(*threads) : "";
    if (*json) {
      if (*measure) machine = machine.substr(0, machine.size() - 1) + ", \"limits\": " + limits + "}";
      std::puts(machine.c_str());
      return;
    }
    simdjson::dom::parser parser;
    simdjson::dom::element m = parser.parse(machine);
    std::printf("ingot %s\ninstruction set: %s (INGOT_ISA caps it)\nthreads: %lld\n", std::string(std::string_view(m["version"])).c_str(),
                std::string(std::string_view(m["isa"])).c_str(), static_cast<long long>(int64_t(m["threads"])));
    print_gpus(m);
    if (*measure) {
      simdjson::dom::parser other;
      simdjson::dom::element l = other.parse(limits);
      std::printf("float32 peak: %.1f GFLOP/s\nbfloat16 peak: %.1f GFLOP/s\nread bandwidth: %.1f GB/s\n", double(l["flops"]) * 1e-9, double(l["bf16_flops"]) * 1e-9,
                  double(l["bytes_per_second"]) * 1e-9);
    }
    if (*keep) std::printf("kept for machine=measured: %s\n", kept.c_str());
  });
}

}  // namespace ingot::cli
