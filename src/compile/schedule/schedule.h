// The second phase: the steps in order, each by the offer that was chosen for its site.
#pragma once
#include <string>
#include <vector>

#include "compile/storage/storage.h"

namespace ingot::compile {

// The offers for a site, as they are reported.
struct Considered {
  std::string_view site;                     // "gemm"; none: there was no choice
  std::string_view chosen;                   // the implementation
  bool timed = false;                        // it was the fastest
  std::vector<backend::Offer> offers = {};   // without their emit functions
  std::vector<backend::Refusal> refusals = {};
};

// After a step, `place` holds the elements of `value`. It is `of`, or a part of it: of a concatenation, of an update or what it begins with.
struct StepResult {
  ir::ValueId value;
  BufferView place;
  ir::ValueId of;
  BufferView whole;
};

// Another offer for a step, with the same operands, whose cost is near.
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
  std::vector<StepResult> results = {};      // none: what is written is packed
  // Where offers that are near are asked for (Settings::rivals): the others, and Timing::problem, whose choices are the implementations.
  std::vector<Rival> rivals = {};
  std::string problem = {};
};

struct Schedule {
  // What has to be decided otherwise before there is a schedule; then there are no steps.
  Requirements missing;
  std::vector<ScheduledStep> steps;
  Buffers buffers;                           // the storage plan's, and those of copies at the end
};

// Error (unsupported) where the backend has no kernel, and there is no way around one.
Schedule make_schedule(const StoragePlan&);
// Each step with its offers and refusals.
std::string print(const Schedule&, const ir::Graph&);

std::vector<StridedLayout> layouts_of(const std::vector<BufferView>& places);

}  // namespace ingot::compile
