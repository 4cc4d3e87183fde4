#include "capture/origin.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace ingot::capture {

namespace {

enum class Owner : int { torch, library, user };

Owner owner_of(std::string_view file) {
  auto has = [&](std::string_view part) { return file.find(part) != std::string_view::npos; };
  if (file.starts_with("torch/") || has("/site-packages/torch/") || has("/dist-packages/torch/") || file.starts_with("<")) return Owner::torch;
  if (has("/site-packages/") || has("/dist-packages/") || has("/lib/python3")) return Owner::library;
  return Owner::user;
}

std::string_view trim(std::string_view s) {
  size_t begin = s.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return s.substr(begin, s.find_last_not_of(" \t\r\n") - begin + 1);
}

}  // namespace

ir::Origin origin_of(std::string_view stack_trace, std::string_view module_stack) {
  ir::Origin best;
  int best_owner = -1;
  constexpr std::string_view mark = "File \"";
  for (size_t at = stack_trace.find(mark); at != std::string_view::npos;) {
    size_t next = stack_trace.find(mark, at + mark.size());
    std::string_view frame = stack_trace.substr(at + mark.size(), next == std::string_view::npos ? next : next - at - mark.size());
    at = next;
    size_t quote = frame.find('"');
    if (quote == std::string_view::npos) continue;
    std::string_view file = frame.substr(0, quote);
    int line = 0;
    constexpr std::string_view line_mark = "line ";
    if (size_t l = frame.find(line_mark, quote); l != std::string_view::npos) {
      std::from_chars(frame.data() + l + line_mark.size(), frame.data() + frame.size(), line);
    }
    std::string_view code;
    if (size_t newline = frame.find('\n'); newline != std::string_view::npos) {
      code = frame.substr(newline + 1);
      code = trim(code.substr(0, code.find('\n')));
    }
    int owner = static_cast<int>(owner_of(file));
    if (owner < best_owner) continue;
    best_owner = owner;
    best.file = file;
    best.line = line;
    best.code = code;
  }
  for (std::string_view rest = module_stack; !rest.empty();) {
    std::string_view entry = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    if (size_t comma = entry.rfind(','); comma != std::string_view::npos) (best.classes += best.classes.empty() ? "" : ";") += entry.substr(comma + 1);
  }
  // The innermost module: the second field of the last entry.
  if (size_t last = module_stack.rfind(';'); last != std::string_view::npos) module_stack = module_stack.substr(last + 1);
  if (size_t comma = module_stack.find(','); comma != std::string_view::npos) {
    std::string_view path = module_stack.substr(comma + 1);
    path = path.substr(0, path.find(','));
    for (std::string_view prefix : {std::string_view("L['self']."), std::string_view("L['self']"), std::string_view("L['fn'].")}) {
      if (path.starts_with(prefix)) path.remove_prefix(prefix.size());
    }
    if (path.find("_empty_nn_module") == std::string_view::npos) best.module = path;
  }
  return best;
}

}  // namespace ingot::capture
