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

// The plan for these targets, compiled from its portable graphs with the options it was compiled with: what build would have made for them. Weights are the
// plan's. For a GPU that the plan has no program for, or a plan of an older format. INGOT_LOG tells of it.
plan::Plan rebuild(const plan::Plan&, std::span<const Target>, compile::Record* record = nullptr);

// Runs prepare and a function of the plan step by step, and compares what each step writes with the reference (verify/verify.h): JSON. Error (version) when
// the plan's graph, compiled anew, gives other steps than the plan has.
std::string verify_steps(const std::shared_ptr<const plan::Plan>&, size_t function, std::span<const runtime::HostTensor> inputs, verification::Settings);

// What build would make of it, as JSON (see partition/partition.h); nothing is built.
std::string explain(const capture::Model&, const compile::Options&);

}  // namespace ingot
