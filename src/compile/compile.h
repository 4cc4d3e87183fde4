// Compiles canonical graphs to a plan: storage, schedule and emission (function.h) for each target.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "compile/options.h"
#include "compile/schedule/schedule.h"
#include "ir/regions.h"
#include "plan/plan.h"

namespace ingot::compile {

using ir::NamedGraph;

inline constexpr std::string_view producer = "ingot 0.1.0";  // written into each plan

// The decisions of a build, for `ingot inspect` and `ingot verify`.
struct Record {
  bool device_code = true;                      // false: none is compiled, and the plan cannot run on a GPU
  std::string decisions = {};                   // what is stored and why, and each step's offers and refusals
  struct Program {
    ir::Graph graph;                            // of this program; its weights are the plan's weights and derived tensors
    std::vector<uint32_t> derived;              // per value: index in ForTarget::derived, or none_id
    std::vector<std::vector<StepResult>> steps;
  };
  // For the target compiled last. The outputs of prepare's graph are the derived tensors before packing.
  Program prepare = {};
  std::vector<Program> functions = {};
};

// What a timed build knows and asks, for the GPU at hand.
struct Timed {
  std::vector<Timing> known;                    // earlier timings. They decide among offers whose costs are near
  bool rivals = false;  // adds the other near offers to `steps` and their code to the plan, if no timing is known. The plan is compiled anew after timing
  std::vector<plan::TimedStep> steps = {};  // out: all steps that can be timed
};

// Called after each pass (passes/passes.h) of a function for a target.
using PassObserver = std::function<void(std::string_view function, const Target&, std::string_view pass, double seconds, const ir::Graph&)>;

// Compiles each graph to a function of one plan. Weights with the same name become one weight. `progress(stage, fraction)` returns false to cancel (Error cancelled).
plan::Plan compile(std::span<const NamedGraph> functions, const Options&, const std::function<bool(std::string_view, double)>& progress = {}, Record* record = nullptr,
                   Timed* timed = nullptr, const PassObserver& observe = {});
inline plan::Plan compile(const ir::Graph& canonical, const Options& options, const std::function<bool(std::string_view, double)>& progress = {}) {
  NamedGraph one{"forward", canonical};
  return compile(std::span(&one, 1), options, progress);
}

}  // namespace ingot::compile
