// The way of a model on one page: captured graph -> segments -> canonical graphs -> plan.
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

// `progress(stage, fraction)` returns false to cancel. INGOT_DUMP=folder writes every stage's text there; INGOT_LOG=info
// prints how long each took, INGOT_LOG=debug how large the graph was then too.
// One function "forward" where the whole graph runs here; else one a segment, "segment_0" and so on (option fallback).
plan::Plan build(const capture::Model&, const compile::Options&, const std::function<bool(std::string_view, double)>& progress = {});

// What a plan is made from, weights' values excepted, as lines: the library, each option that changes plans, the signature, the graph with its sizes and the user's lines.
std::string cache_key(const capture::Model&, const compile::Options&);

// build(), or the plan that it made before with the weights at hand (option cache; pipeline_cache.cpp). Not where a build is looked into or timed: INGOT_DUMP, INGOT_DISABLE,
// INGOT_LOG=debug, build_seconds, timing_cache. INGOT_LOG=info tells of a hit, and of a miss which lines the nearest entry has else. A cache that cannot be read or written is told once.
plan::Plan build_or_take(const capture::Model&, const compile::Options&, const std::function<bool(std::string_view, double)>& progress = {});

// The plan for these targets, compiled from its portable graphs with the options it was compiled with: what build would have made for them. Weights are the
// plan's. For a GPU that the plan has no program for, or a plan of an older format. INGOT_LOG tells of it.
plan::Plan rebuild(const plan::Plan&, std::span<const Target>, compile::Record* record = nullptr);

// Runs prepare and a function of the plan step by step, and compares what each step writes with the reference (verify/verify.h): JSON. Error (version) when
// the plan's graph, compiled anew, gives other steps than the plan has.
std::string verify_steps(const std::shared_ptr<const plan::Plan>&, size_t function, std::span<const runtime::HostTensor> inputs, verification::Settings);

// An adapter's file (capture/adapter.h), or the folder that it is in with its adapter_config.json; what it adds is multiplied by `scale`.
struct AdapterFile {
  std::string path;
  double scale = 1;
};
// The plan with the values of its weights from files of safetensors, by state-dict name, plus what adapters add to them: summed in float32 (float64 weights in float64), rounded
// once. Without files the values are the plan's own. Error (invalid_input) listing names that the plan has not, other dtypes and shapes, and weights that no file has; with
// `allow_missing` those keep the plan's values.
plan::Plan refit(const plan::Plan&, const std::vector<std::string>& weights, const std::vector<AdapterFile>& adapters, bool allow_missing);

// What build would make of it, as JSON (see partition/partition.h); nothing is built.
std::string explain(const capture::Model&, const compile::Options&);

}  // namespace ingot
