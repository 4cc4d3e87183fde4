// Lines for people: warnings, and what INGOT_LOG asks for. They go to the program's function (ingot_set_log), or to standard error.
#pragma once
#include <string>

namespace ingot {

enum class LogLevel { debug, info, warning };  // as ingot_log_level
using LogFunction = void (*)(LogLevel, const char* text, void* user);

void set_log(LogFunction function, void* user);  // null: standard error
// text: one line or more, without "ingot: " and without a newline at the end.
void say(LogLevel level, const std::string& text);

}  // namespace ingot
