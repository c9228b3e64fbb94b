#include "lecture/report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "headproof/text.h"
#include "lecture/sections.h"
#include "prose/lines.h"
#include "prose/math.h"

namespace headproof {
namespace {

std::string outcome_text(Outcome outcome, const Paint& paint) {
  return outcome == Outcome::holds ? paint.good(name_of(outcome)) : paint.bad(name_of(outcome));
}

/// The table's prose as plain text.
Table plain(const Table& prose) {
  const auto convert = [](const std::vector<std::string>& cells) {
    std::vector<std::string> texts;
    for (const std::string& cell : cells) texts.push_back(math_to_text(cell));
    return texts;
  };
  Table table{convert(prose.columns), {}};
  for (const auto& row : prose.rows) table.rows.push_back(convert(row));
  return table;
}

std::string table_text(const Table& prose, const Paint& paint) {
  const Table table = plain(prose);
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    std::size_t width = shown_width(table.columns[c]);
    for (const auto& row : table.rows) width = std::max(width, shown_width(row[c]));
    widths.push_back(width);
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text = "    ";
    for (std::size_t c = 0; c < cells.size(); ++c) text += "  " + padded(cells[c], widths[c]);
    return text.substr(0, text.find_last_not_of(' ') + 1);
  };
  std::string text = paint.faint(line(table.columns)) + "\n";
  for (const auto& row : table.rows) text += line(row) + "\n";
  return text;
}

/// "exact", "bitwise", or "12 % of the bound".
std::string margin(const Finding& finding) {
  if (finding.claim != Claim::bounded || finding.outcome != Outcome::holds) {
    return std::string(name_of(finding.claim));
  }
  const double percent = finding.bound > 0 ? 100 * finding.error / finding.bound : 0;
  if (percent > 0 && percent < 0.1) return "under 0.1 % of the bound";
  return fixed(percent, 1) + " % of the bound";
}

std::string result_text(const ResultItem& item, const Paint& paint) {
  const Theorem& theorem = *find_theorem(item.theorem);
  std::string text = "  " + outcome_text(item.verdict.outcome(), paint) + "  " +
                     paint.bold(item.theorem) + "  " + math_to_text(theorem.title) + "\n";
  for (const Finding& finding : item.verdict.findings) {
    const std::string mark =
        finding.outcome == Outcome::holds ? "" : outcome_text(finding.outcome, paint);
    text += "      " + padded(math_to_text(finding.what), 64) + "  " +
            paint.faint(margin(finding)) + (mark.empty() ? "" : "  " + mark) + "\n";
    if (!finding.note.empty()) text += wrapped(finding.note, "          ");
  }
  return text;
}

template <class Visit>
void for_shown_sections(const Lecture& lecture, std::string_view only, Visit&& visit) {
  for (const Section& section : lecture.sections) {
    if (only.empty() || section.id == only) visit(section);
  }
}

nlohmann::json verdict_json(const Verdict& verdict) {
  nlohmann::json findings = nlohmann::json::array();
  for (const Finding& finding : verdict.findings) {
    nlohmann::json entry = {{"what", math_to_text(finding.what)},
                            {"claim", name_of(finding.claim)},
                            {"outcome", name_of(finding.outcome)}};
    if (finding.claim == Claim::bounded) {
      entry["error"] = finding.error;
      entry["bound"] = finding.bound;
    }
    if (!finding.note.empty()) entry["note"] = finding.note;
    findings.push_back(std::move(entry));
  }
  return {
      {"outcome", name_of(verdict.outcome())}, {"used", verdict.used()}, {"findings", findings}};
}

}  // namespace

std::string lecture_text(const Lecture& lecture, std::string_view only, bool colour) {
  const Paint paint(colour);
  std::string text = paint.bold("A causal self-attention head") + ", seed " +
                     std::to_string(lecture.seed) +
                     (lecture.seed >> 32 != 0 ? " (its low 32 bits count)" : "") +
                     ", text: " + on_one_line(lecture.text_name) + "\n";
  std::map<std::string, bool> results;  // by theorem: whether it holds wherever it is looked at
  for_shown_sections(lecture, only, [&](const Section& section) {
    text += "\n" + paint.bold(section.id + "  " + math_to_text(section.title)) + "\n";
    for (const Item& item : section.items) {
      if (const auto* prose = std::get_if<std::string>(&item)) {
        text += wrapped(math_to_text(*prose), "  ");
      } else if (const auto* table = std::get_if<Table>(&item)) {
        text += table_text(*table, paint);
      } else {
        const auto& result = std::get<ResultItem>(item);
        const bool holds = result.verdict.outcome() == Outcome::holds;
        results[result.theorem] = holds && results.try_emplace(result.theorem, true).first->second;
        text += result_text(result, paint);
      }
    }
  });
  const auto holding = std::count_if(results.begin(), results.end(),
                                     [](const auto& result) { return result.second; });
  return text + "\n" + std::to_string(holding) + " of " + std::to_string(results.size()) +
         " results hold\n";
}

std::string lecture_json(const Lecture& lecture, std::string_view only,
                         const std::vector<std::string>& files) {
  nlohmann::json sections = nlohmann::json::array();
  for_shown_sections(lecture, only, [&](const Section& section) {
    nlohmann::json items = nlohmann::json::array();
    for (const Item& item : section.items) {
      if (const auto* prose = std::get_if<std::string>(&item)) {
        items.push_back({{"text", math_to_text(*prose)}});
      } else if (const auto* prose_table = std::get_if<Table>(&item)) {
        const Table table = plain(*prose_table);
        items.push_back({{"columns", table.columns}, {"rows", table.rows}});
      } else {
        const auto& result = std::get<ResultItem>(item);
        nlohmann::json entry = verdict_json(result.verdict);
        entry["theorem"] = result.theorem;
        entry["title"] = math_to_text(find_theorem(result.theorem)->title);
        entry["broken_by"] = {{"mutant", result.mutant}, {"verdict", verdict_json(result.broken)}};
        items.push_back(std::move(entry));
      }
    }
    sections.push_back(
        {{"id", section.id}, {"title", math_to_text(section.title)}, {"items", std::move(items)}});
  });
  const nlohmann::json document = {{"schema_version", 1},
                                   {"command", "lecture"},
                                   {"seed", lecture.seed},
                                   {"text", lecture.text_name},
                                   {"shown", to_utf8(lecture.shown)},
                                   {"outcome", name_of(lecture.outcome())},
                                   {"sections", std::move(sections)},
                                   {"files", files}};
  // File names may hold bytes that are not UTF-8.
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace headproof
