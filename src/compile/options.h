// Options by name, from the one table in options.def.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/machine.h"
#include "base/target.h"
#include "ir/dtype.h"

namespace ingot::compile {

enum class OptionKind : uint8_t {
  partition,  // what runs in torch; part of the plan's key, without effect on an engine
  plan,
  build,
  session,
};
// True if the option is part of the plan's key.
inline bool changes_plan(OptionKind kind) { return kind == OptionKind::partition || kind == OptionKind::plan; }

struct Option {
  std::string_view name, type, default_text, kind_name;
  OptionKind kind;
  std::string_view sentence;
};
std::span<const Option> option_table();

class Options {
 public:
  Options();  // all at their default
  // Error (invalid_option) names the nearest option, or the allowed values.
  void set(std::string_view name, std::string_view text);
  const std::string& text(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  std::vector<std::string> list(std::string_view name) const;
  std::vector<Target> targets() const;

 private:
  std::vector<std::string> values_;  // in the order of option_table()
};

// The dtype that a value of option autocast names, or nullopt.
std::optional<ir::DType> autocast_type(std::string_view text);
// True if float32 GEMMs, or convolutions, use TF32 on a GPU.
bool products_by_tf32(const Options&);
bool convolutions_by_tf32(const Options&);
// The rates by which a target's plans are chosen: those of option machine if they are for it, else the table's.
Machine machine_of(const Target&, const Options&);

}  // namespace ingot::compile
