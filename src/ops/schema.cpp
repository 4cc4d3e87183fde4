// Reads ATen's schema text.
#include <algorithm>

#include "base/error.h"
#include "ops/operator.h"

namespace ingot::ops {

std::string Schema::target() const {
  size_t colons = name.find("::");  // other libraries than aten are named
  std::string out = colons == std::string::npos ? "aten" : name.substr(0, colons);
  out += '.';
  out += colons == std::string::npos ? name : name.substr(colons + 2);
  out += '.';
  out += overload.empty() ? "default" : overload;
  return out;
}

namespace {

// Alternatives of `{a,b}` expanded in step: text with k alternatives gives k texts.
std::vector<std::string> alternatives(std::string_view text) {
  size_t count = 1;
  size_t open = text.find('{');
  if (open != std::string_view::npos) {
    size_t close = text.find('}', open);
    count = 1 + static_cast<size_t>(std::count(text.begin() + static_cast<int64_t>(open), text.begin() + static_cast<int64_t>(close), ','));
  }
  std::vector<std::string> out(count);
  for (size_t k = 0; k < count; ++k) {
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '{') {
        out[k] += text[i];
        continue;
      }
      size_t close = text.find('}', i);
      std::string_view inside = text.substr(i + 1, close - i - 1);
      for (size_t skip = 0; skip < k; ++skip) inside.remove_prefix(std::min(inside.size(), inside.find(',') + 1));
      out[k] += inside.substr(0, inside.find(','));
      i = close;
    }
  }
  return out;
}

std::string_view trimmed(std::string_view t) {
  while (!t.empty() && t.front() == ' ') t.remove_prefix(1);
  while (!t.empty() && t.back() == ' ') t.remove_suffix(1);
  return t;
}

Parameter parameter(std::string_view text, bool keyword_only) {
  Parameter p;
  p.keyword_only = keyword_only;
  size_t equal = text.find('=');
  if (equal != std::string_view::npos) {
    p.default_text = std::string(trimmed(text.substr(equal + 1)));
    text = trimmed(text.substr(0, equal));
  }
  size_t space = text.rfind(' ');
  p.type = std::string(text.substr(0, space));
  p.name = std::string(text.substr(space + 1));
  return p;
}

}  // namespace

std::vector<Schema> parse_schema(std::string_view text) {
  std::vector<Schema> out;
  for (const std::string& one : alternatives(text)) {
    std::string_view t = one;
    size_t open = t.find('('), close = t.rfind(')');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) fail(Code::internal, "schema \"{}\" has no parameter list", t);
    Schema s;
    std::string_view name = t.substr(0, open);
    size_t dot = name.find('.');
    s.name = std::string(name.substr(0, dot));
    if (dot != std::string_view::npos) s.overload = std::string(name.substr(dot + 1));
    std::string_view rest = t.substr(open + 1, close - open - 1);
    bool keyword_only = false;
    while (!trimmed(rest).empty()) {
      size_t end = 0;
      int depth = 0;
      for (; end < rest.size() && (depth > 0 || rest[end] != ','); ++end) {
        depth += rest[end] == '[' || rest[end] == '(';
        depth -= rest[end] == ']' || rest[end] == ')';
      }
      std::string_view part = trimmed(rest.substr(0, end));
      rest.remove_prefix(std::min(rest.size(), end + 1));
      if (part == "*") {
        keyword_only = true;
      } else {
        s.parameters.push_back(parameter(part, keyword_only));
      }
    }
    out.push_back(std::move(s));
  }
  return out;
}

}  // namespace ingot::ops
