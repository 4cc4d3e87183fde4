// The second phase: the steps in order, each by the cheapest offer for its site.
#pragma once
#include <string>
#include <vector>

#include "compile/storage/storage.h"

namespace ingot::compile {

// The offers for a site, for the report.
struct Considered {
  std::string_view site;                     // "gemm"; empty: there was no choice
  std::string_view chosen;                   // the implementation
  bool timed = false;                        // a timing decided
  std::vector<backend::Offer> offers = {};   // without their emit functions
  std::vector<backend::Refusal> refusals = {};
};

// After a step, `place` holds the elements of `value`, which is `of` or a part of it: a part of a concatenation, or the value or base of an update.
struct StepResult {
  ir::ValueId value;
  BufferView place;
  ir::ValueId of;
  BufferView whole;
};

// Another offer for a step, with the same operands and a near cost.
struct Rival {
  std::string_view implementation;
  backend::EmittedStep emitted;
};

struct ScheduledStep {
  backend::EmittedStep emitted;
  std::vector<BufferView> operands;
  uint32_t writes = 1;
  std::string label;
  ir::OriginId origin = ir::none_id;
  Considered considered = {};
  std::vector<StepResult> results = {};      // empty: the step packs a weight
  // Only with Settings::rivals: the other near offers, and the Timing::problem of the choice between them (its choices are implementations).
  std::vector<Rival> rivals = {};
  std::string problem = {};
};

struct Schedule {
  // What storage must change before there is a schedule; then there are no steps.
  Requirements missing;
  std::vector<ScheduledStep> steps;
  Buffers buffers;                           // the storage plan's, and those of final copies
};

// Error (unsupported) if the backend has no kernel and no rewrite helps.
Schedule make_schedule(const StoragePlan&);
// Each step with its offers and refusals.
std::string print(const Schedule&, const ir::Graph&);

std::vector<StridedLayout> layouts_of(const std::vector<BufferView>& places);

}  // namespace ingot::compile
