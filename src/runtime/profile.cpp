#include "runtime/profile.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "plan/describe.h"

namespace ingot::runtime {

namespace {

// Names a process (lane = -1) or one of its tracks.
void append_name(std::string& s, int process, int lane, std::string_view name) {
  s += fmt::format("{{\"ph\": \"M\", \"pid\": {}, ", process);
  s += lane < 0 ? "\"name\": \"process_name\"" : fmt::format("\"tid\": {}, \"name\": \"thread_name\"", lane);
  s += ", \"args\": {\"name\": ";
  append_json_string(s, name);
  s += "}},\n";
}

}  // namespace

void note_times(const Executor& executor, backend::Stream& stream, std::vector<Timed>& out) {
  const std::vector<int64_t> nanoseconds = stream.nanoseconds();
  const Resolved& r = *executor.last();
  for (size_t n = 0; n < r.steps.size() && n < nanoseconds.size(); ++n)
    out.push_back({&executor.loaded(), n, r.steps[n].chosen->kernel->name, nanoseconds[n], bytes_moved(r.steps[n]), r.steps[n].sizes});
}

std::string Profile::table(size_t resolutions) const {
  std::string s = "{\"steps\": [";
  bool more = false;
  for (const Timed& t : timed) {
    const plan::Step& step = t.function->program->steps[t.step];
    s += std::exchange(more, true) ? ", {\"label\": " : "{\"label\": ";
    append_json_string(s, step.label);
    s += ", \"kernel\": ";
    append_json_string(s, t.kernel);
    s += ", \"origin\": ";
    append_json_string(s, plan::where(*t.function->plan, step));
    s += fmt::format(", \"nanoseconds\": {}, \"bytes\": {}, \"sizes\": [{}]}}", t.nanoseconds, t.bytes, fmt::join(t.sizes, ", "));
  }
  return s + fmt::format("], \"call_nanoseconds\": {}, \"resolutions\": {}}}", call_nanoseconds, resolutions);
}

std::string Profile::trace(const LoadedFunction& called) const {
  const bool device = called.backend->memory() != nullptr;
  constexpr int cpu = 0, gpu = 1, call_lane = 0, step_lane = 1;
  const int process = device ? gpu : cpu;
  std::string s = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n";
  append_name(s, cpu, -1, "CPU");
  append_name(s, cpu, call_lane, "calls");
  if (device) append_name(s, gpu, -1, "GPU");
  append_name(s, process, step_lane, "steps");
  auto slice = [&](int pid, int lane, std::string_view name, int64_t begin, int64_t nanoseconds) {
    s += fmt::format("{{\"ph\": \"X\", \"pid\": {}, \"tid\": {}, \"ts\": {:.3f}, \"dur\": {:.3f}, \"name\": ", pid, lane, static_cast<double>(begin) / 1e3,
                     static_cast<double>(nanoseconds) / 1e3);
    append_json_string(s, name);
  };
  slice(cpu, call_lane, called.function->name, 0, call_nanoseconds);
  s += "}";
  int64_t at = 0;
  for (const Timed& t : timed) {
    const plan::Step& step = t.function->program->steps[t.step];
    s += ",\n";
    slice(process, step_lane, step.label, at, t.nanoseconds);
    s += ", \"cat\": ";
    append_json_string(s, t.kernel);
    s += ", \"args\": {\"origin\": ";
    append_json_string(s, plan::where(*t.function->plan, step));
    s += fmt::format(", \"bytes\": {}, \"sizes\": \"{}\"}}}}", t.bytes, fmt::join(t.sizes, "x"));
    at += t.nanoseconds;
  }
  return s + "\n]}\n";
}

}  // namespace ingot::runtime
