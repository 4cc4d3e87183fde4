// Option machine="measured": the rates that `ingot doctor --measure --keep` left in a file next to the cache of plans.
#include <simdjson.h>

#include "base/error.h"
#include "base/machine.h"
#include "base/own_file.h"
#include "pipeline.h"
#include "runtime/timing.h"

namespace ingot {

namespace {

// Error with what is wrong with the file.
std::string rates_of(const std::string& path) {
  if (path.empty()) fail(Code::io, "there is no folder for caches");
  constexpr uint64_t max_bytes = 64 << 10;
  const OwnFile file = read_own_file(path, max_bytes);
  if (!file.refused.empty()) fail(Code::io, "{}", file.refused);
  if (!file.bytes) fail(Code::io, "there is no such file");
  simdjson::dom::parser parser;
  simdjson::dom::element whole;
  const auto read = parser.parse(reinterpret_cast<const char*>(file.bytes->data()), file.bytes->size()).get(whole);
  std::string_view processor;
  if (read != simdjson::SUCCESS || whole["processor"].get(processor) != simdjson::SUCCESS) fail(Code::format, "it is damaged");
  if (const std::string here = runtime::machine("cpu"); processor != here) fail(Code::format, "it is of another machine, \"{}\"; this one is \"{}\"", processor, here);
  Machine machine;
  for (const MachineField& f : machine_fields()) {
    if (whole["rates"][f.name].get(machine.*f.value) != simdjson::SUCCESS) fail(Code::format, "it is damaged: \"{}\" is missing, or no number", f.name);
  }
  const std::string out = text_of(machine);
  if (!parse_machine(out)) fail(Code::format, "it is damaged: no machine has these rates");
  return out;
}

}  // namespace

std::string measured_machine_path() { return cache_folder("machine.json"); }

compile::Options with_measured_machine(compile::Options options) {
  if (options.text("machine") != "measured") return options;
  const std::string path = measured_machine_path();
  try {
    options.set("machine", rates_of(path));
  } catch (const Error& e) {
    say_once(fmt::format("machine=\"measured\" is ignored: {}: {}\n  remedy: measure this machine with `ingot doctor --measure --keep`", path, e.message));
    options.set("machine", "table");
  }
  return options;
}

}  // namespace ingot
