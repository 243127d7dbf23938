// SPDX-License-Identifier: Apache-2.0
#include "driver/html.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/text.hpp"

namespace codetta::driver::html {
namespace {

constexpr std::string_view style =
    "body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;max-width:72rem;padding:1rem;color:#1c1c1c;background:#fff}"
    "h1{font-size:1.5rem}h2{font-size:1.15rem;border-bottom:1px solid #bbb}"
    "pre{background:#f4f4f2;padding:.6rem;overflow:auto;font:13px/1.35 monospace}"
    "table{border-collapse:collapse;margin:.5rem 0}th,td{padding:.15rem .7rem .15rem 0;text-align:left;vertical-align:"
    "top}"
    "th{border-bottom:1px solid #bbb}td.n{text-align:right;font-variant-numeric:tabular-nums}"
    ".pair{display:flex;gap:1rem;flex-wrap:wrap}.pair>div{flex:1 1 24rem;min-width:0}"
    "svg{max-width:100%;height:auto}svg text{font:12px sans-serif;fill:#1c1c1c}.bar{fill:#4a7aa7}.even{fill:#7f9f6c}"
    ".line{stroke:#999}.live{fill:none;stroke:#b04a3a;stroke-width:1.5}.bound{stroke:#b04a3a;stroke-dasharray:4 3}"
    "summary{cursor:pointer}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}pre{background:#242424}svg "
    "text{fill:#ddd}}";

bool is_number(std::string_view cell) {
  return !cell.empty() && base::parse_double(cell.substr(0, cell.find(' '))).has_value();
}

std::string shortened(std::string_view text, size_t most) {
  if (base::count_code_points(text) <= most) return std::string(text);
  size_t at = 0;
  for (size_t i = 0; i + 3 < most; ++i) at += base::utf8_step(text, at).length;
  return std::string(text.substr(0, at)) + "...";
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const base::Utf8Step step = base::utf8_step(text, at);
    const uint32_t c = step.code_point;
    const bool control = (c < 0x20 && c != '\n' && c != '\r' && c != '\t') || (c >= 0x7F && c < 0xA0);
    const bool noncharacter = (c >= 0xFDD0 && c <= 0xFDEF) || (c & 0xFFFE) == 0xFFFE;
    if (!step.valid || control || noncharacter) {
      out += "\xEF\xBF\xBD";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else {
      out += text.substr(at, step.length);
    }
    at += step.length;
  }
  return out;
}

std::string bar_chart(const std::vector<Bar>& bars, std::string_view unit) {
  double most = 0;
  for (const Bar& bar : bars) {
    if (std::isfinite(bar.value)) most = std::max(most, bar.value);
  }
  constexpr int left = 230, width = 380, step = 24;
  std::string out = fmt::format("<svg viewBox=\"0 0 {} {}\" width=\"{}\" role=\"img\" aria-label=\"bar chart\">\n", 900,
                                static_cast<int>(bars.size()) * step + 4, 900);
  for (size_t i = 0; i < bars.size(); ++i) {
    const Bar& bar = bars[i];
    const bool drawn = std::isfinite(bar.value) && bar.value > 0 && most > 0;
    const double length = drawn ? bar.value / most * width : 0;
    const int y = static_cast<int>(i) * step;
    out += fmt::format(
        "<g><title>{}</title><text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>"
        "<rect class=\"bar\" x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\"/>"
        "<text x=\"{:.1f}\" y=\"{}\">{:.3f} {}</text></g>\n",
        escaped(bar.note.empty() ? bar.label : bar.label + ": " + bar.note), left - 8, y + 16,
        escaped(shortened(bar.label, 34)), left, y + 4, length, step - 8, left + length + 8, y + 16, bar.value,
        escaped(unit));
  }
  return out + "</svg>\n";
}

std::string timeline(const std::vector<Span>& spans, const std::vector<int64_t>& live, double total_bytes) {
  const size_t steps = live.size();
  constexpr double left = 80, width = 780, height = 240, top = 10;
  const double across = width / static_cast<double>(std::max<size_t>(steps, 1)),
               up = total_bytes > 0 ? height / total_bytes : 0;
  std::string out = fmt::format(
      "<svg viewBox=\"0 0 900 290\" width=\"900\" role=\"img\" aria-label=\"memory timeline\">\n"
      "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{:.0f} B</text><text x=\"{}\" y=\"{}\" "
      "text-anchor=\"end\">0</text>\n"
      "<line class=\"line\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n",
      left - 6, top + 10, total_bytes, left - 6, top + height, left, top + height, left + width, top + height);
  for (size_t i = 0; i < spans.size(); ++i) {
    const Span& s = spans[i];
    const double x = left + s.first * across, w = (s.last - s.first + 1) * across;
    const double y = top + height - (s.offset + s.bytes) * up;
    const std::string facts =
        fmt::format("{}: {:.0f} bytes at {:.0f}, steps {:.0f} to {:.0f}", s.label, s.bytes, s.offset, s.first, s.last);
    out += fmt::format(
        "<g><title>{}</title><rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>"
        "<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text></g>\n",
        escaped(facts), i % 2 == 0 ? "bar" : "even", x + 1, y, std::max(w - 2, 1.0), std::max(s.bytes * up, 1.0), x + 5,
        y + 14, escaped(shortened(s.label, 24)));
  }
  int64_t most = 0;
  std::string curve;
  for (size_t step = 0; step < steps; ++step) {
    most = std::max(most, live[step]);
    const double y = top + height - static_cast<double>(live[step]) * up, x = left + static_cast<double>(step) * across;
    curve += fmt::format("{:.1f},{:.1f} {:.1f},{:.1f} ", x, y, x + across, y);
  }
  const double bound = top + height - static_cast<double>(most) * up;
  out += fmt::format(
      "<polyline class=\"live\" points=\"{}\"/>\n"
      "<line class=\"bound\" x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\"><title>{} bytes live at "
      "once</title></line>\n",
      curve, left, bound, left + width, bound, most);
  for (size_t step = 0; step < steps && steps <= 64; ++step) {
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\">{}</text>\n", left + (static_cast<double>(step) + 0.4) * across,
                       top + height + 18, step);
  }
  return out + fmt::format("<text x=\"{}\" y=\"{}\">step</text>\n</svg>\n", left - 40, top + height + 18);
}

std::string roofline(const std::vector<RoofPoint>& points, double memory_rate, double peak) {
  constexpr double left = 80, width = 780, height = 260, top = 10;
  const auto drawn = [](const RoofPoint& p) {
    return std::isfinite(p.intensity) && std::isfinite(p.rate) && p.intensity > 0 && p.rate > 0;
  };
  const double ridge = peak > 0 && memory_rate > 0 ? peak / memory_rate : 1;
  double least_x = ridge / 4, most_x = ridge * 4, least_y = ridge * memory_rate / 4, most_y = ridge * memory_rate * 2;
  for (const RoofPoint& p : points) {
    if (!drawn(p)) continue;
    least_x = std::min(least_x, p.intensity / 2), most_x = std::max(most_x, p.intensity * 2);
    least_y = std::min(least_y, p.rate / 2), most_y = std::max(most_y, p.rate * 2);
  }
  if (!(least_x > 0 && least_y > 0 && most_x > least_x && most_y > least_y)) return {};
  const auto x_of = [&](double x) { return left + std::log(x / least_x) / std::log(most_x / least_x) * width; };
  const auto y_of = [&](double y) {
    return top + height - std::log(y / least_y) / std::log(most_y / least_y) * height;
  };
  std::string out = fmt::format(
      "<svg viewBox=\"0 0 900 320\" width=\"900\" role=\"img\" aria-label=\"roofline\">\n"
      "<line class=\"line\" x1=\"{0}\" y1=\"{1}\" x2=\"{2}\" y2=\"{1}\"/><line class=\"line\" x1=\"{0}\" y1=\"{3}\" "
      "x2=\"{0}\" y2=\"{1}\"/>\n",
      left, top + height, left + width, top);
  for (double x = std::pow(10, std::ceil(std::log10(least_x))); x <= most_x; x *= 10)
    out +=
        fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g}</text>\n", x_of(x), top + height + 18, x);
  for (double y = std::pow(10, std::ceil(std::log10(least_y))); y <= most_y; y *= 10)
    out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:g}</text>\n", left - 6, y_of(y) + 4, y);
  // The slope from where it enters the picture to the ridge, or to where it leaves.
  const double from = std::max(least_x, least_y / memory_rate),
               to = std::min({most_x, most_y / memory_rate, peak > 0 ? ridge : most_x});
  if (memory_rate > 0 && to > from) {
    out += fmt::format(
        "<line class=\"bound\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"><title>memory, {:.0f} "
        "GB/s</title></line>\n",
        x_of(from), y_of(from * memory_rate), x_of(to), y_of(to * memory_rate), memory_rate);
  }
  if (peak > 0) {
    out += fmt::format(
        "<line class=\"bound\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"><title>arithmetic, {:.0f} "
        "G/s</title></line>\n",
        x_of(ridge), y_of(peak), left + width, y_of(peak), peak);
  }
  for (const RoofPoint& p : points) {
    if (!drawn(p)) continue;
    out += fmt::format(
        "<g><title>{}: {:.3g} operations a byte, {:.3g} G/s</title><circle class=\"bar\" cx=\"{:.1f}\" cy=\"{:.1f}\" "
        "r=\"5\"/><text x=\"{:.1f}\" y=\"{:.1f}\">{}</text></g>\n",
        escaped(p.label), p.intensity, p.rate, x_of(p.intensity), y_of(p.rate), x_of(p.intensity) + 8, y_of(p.rate) + 4,
        escaped(shortened(p.label, 24)));
  }
  return out + fmt::format(
                   "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">operations a byte; upward G operations a second"
                   "</text>\n</svg>\n",
                   left + width, top + height + 38);
}

Page::Page(std::string_view title) : title_(title) { body_ = fmt::format("<body>\n<h1>{}</h1>\n", escaped(title)); }

void Page::section(std::string_view heading) {
  if (open_) body_ += "</section>\n";
  open_ = true;
  body_ += fmt::format("<section>\n<h2>{}</h2>\n", escaped(heading));
}

void Page::text(std::string_view paragraph) { body_ += fmt::format("<p>{}</p>\n", escaped(paragraph)); }

// A line feed right after <pre> is not part of its content, so one is always written.
void Page::code(std::string_view text) { body_ += fmt::format("<pre>\n{}</pre>\n", escaped(text)); }

void Page::folded(std::string_view summary, std::string_view text) {
  body_ +=
      fmt::format("<details>\n<summary>{}</summary>\n<pre>\n{}</pre>\n</details>\n", escaped(summary), escaped(text));
}

void Page::pair(std::string_view left_name, std::string_view left, std::string_view right_name,
                std::string_view right) {
  body_ += "<div class=\"pair\">\n";
  for (const auto& [name, text] : {std::pair{left_name, left}, {right_name, right}})
    body_ += fmt::format("<div>\n<h3>{}</h3>\n<pre>\n{}</pre>\n</div>\n", escaped(name), escaped(text));
  body_ += "</div>\n";
}

void Page::table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows) {
  body_ += "<table>\n<thead><tr>";
  for (const std::string& cell : header) body_ += fmt::format("<th>{}</th>", escaped(cell));
  body_ += "</tr></thead>\n<tbody>\n";
  for (const auto& row : rows) {
    body_ += "<tr>";
    for (const std::string& cell : row)
      body_ += fmt::format("<td{}>{}</td>", is_number(cell) ? " class=\"n\"" : "", escaped(cell));
    body_ += "</tr>\n";
  }
  body_ += "</tbody>\n</table>\n";
}

std::string Page::finish() && {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n"
      "<style>{}</style>\n</head>\n{}{}</body>\n</html>\n",
      escaped(title_), style, body_, open_ ? "</section>\n" : "");
}

}  // namespace codetta::driver::html
