// The stages of a build on one page: captured graph -> segments -> canonical graphs -> plan.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "capture/capture.h"
#include "compile/compile.h"
#include "plan/plan.h"
#include "verify/verify.h"

namespace ingot {

// `progress(stage, fraction)` returns false to cancel. INGOT_DUMP=folder writes every stage's text there. INGOT_LOG=info prints each
// stage's time, INGOT_LOG=debug also the graph's size and what each choice took that is timed.
// One function "forward" if the whole graph runs in an engine; otherwise one per segment, "segment_0" and so on (option fallback).
plan::Plan build(const capture::Model&, const compile::Options&, const std::function<bool(std::string_view, double)>& progress = {});

// The options with the kept rates of this machine in place of machine="measured"; a file that cannot be used is named once, and the table's rates hold. build() and
// cache_key() expect this.
compile::Options with_measured_machine(compile::Options);
// Where `ingot doctor --measure --keep` writes them.
std::string measured_machine_path();

// Everything that a plan depends on except weights' values, as lines: the library, each option that changes plans, the signature,
// the graph with its sizes and the user's lines.
std::string cache_key(const capture::Model&, const compile::Options&);

// build(), or a plan from the cache with this model's weights (option cache; pipeline_cache.cpp). The cache is not used if the build is to be observed or
// timed: INGOT_DUMP, INGOT_DISABLE, INGOT_OFFER, INGOT_LOG=debug, build_seconds, timing_cache. INGOT_LOG=info reports a hit and, for a miss, the difference from the most
// similar entry. A cache that cannot be read or written is reported once.
plan::Plan build_or_take(const capture::Model&, const compile::Options&, const std::function<bool(std::string_view, double)>& progress = {});

// Compiles the plan's portable graphs for these targets with the options of its build: the result is what build would have made for them. Weights are the
// plan's. For a GPU without a program in the plan, or a plan whose programs are of another revision. Reported by INGOT_LOG.
plan::Plan rebuild(const plan::Plan&, std::span<const Target>, compile::Record* record = nullptr);

// Runs prepare and a function of the plan step by step, and compares each step's results with the reference (verify/verify.h): JSON. Error (version)
// if the plan's graph, compiled again, gives other steps.
std::string verify_steps(const std::shared_ptr<const plan::Plan>&, size_t function, std::span<const runtime::HostTensor> inputs, verification::Settings);

// An adapter's file (capture/adapter.h), or its folder with adapter_config.json. Its additions are multiplied by `scale`.
struct AdapterFile {
  std::string path;
  double scale = 1;
};
// The plan with weights' values from safetensors files, by state-dict name (without files: its own), plus the adapters' additions, summed in float32 (float64
// weights in float64) and rounded once. Error (invalid_input) lists names that the plan does not have, wrong dtypes and shapes, and weights that are in no
// file; with `allow_missing` the latter keep the plan's values.
plan::Plan refit(const plan::Plan&, const std::vector<std::string>& weights, const std::vector<AdapterFile>& adapters, bool allow_missing);

// A report of what build would do, as JSON (see partition/partition.h); nothing is built.
std::string explain(const capture::Model&, const compile::Options&);

}  // namespace ingot
