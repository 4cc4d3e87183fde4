// The second phase: the steps in order, each by the cheapest offer for its site.
#pragma once
#include <string>
#include <vector>

#include "compile/schedule/writer.h"
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
  std::vector<std::string> alternatives = {};
};

// The operands of a step by role, in the order of its kernel's definition.
struct StepOperands {
  std::vector<BufferView> views = {};
  std::vector<kernels::Role> roles = {};

  void add(kernels::Role role, BufferView view);
  void add(kernels::Role role, std::span<const BufferView> views);
  // What the body loads, then what it stores.
  void add_body(const WrittenBody&);
};

struct ScheduledStep {
  backend::EmittedStep emitted;
  std::vector<BufferView> operands;
  std::vector<kernels::Role> roles;          // of the operands
  uint32_t writes = 1;
  std::string label;
  ir::OriginId origin = ir::none_id;
  Considered considered = {};
  std::vector<StepResult> results = {};      // empty: the step packs a weight
  std::vector<std::string> alternatives = {};  // kernels of other offers for the site whose steps are equal but for the kernel: see plan::Step
  bool own_memory = false;                   // see backend::Wish; of an alternative or a rival too
  bool reuses_memory = false;                // of all alternatives too
  // Only with Settings::rivals: the other near offers, and the Timing::problem of the choice between them (its choices are implementations).
  std::vector<Rival> rivals = {};
  std::string problem = {};

  // True if a result may take the memory of operand `k`, where it has the same elements.
  bool may_overwrite(size_t k) const { return !own_memory && kernels::may_be_overwritten(roles[k]); }
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
