// The page is put together from three resources: page.html holds its skeleton and the prose that
// stands before and after sections and results, page.css its looks, page.js what a reader can turn.
// Maps of attention come from the two of the explorer (src/pictures/explorer_page.h).

#include "lecture/page.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <set>
#include <string_view>

#include "headproof/attention.h"
#include "headproof/head.h"
#include "pictures/explorer_page.h"
#include "prose/math.h"

namespace headproof {

// The resources, made into symbols when the library is built.
extern const std::string_view page_html, page_css, page_js;

namespace {

// ---- Templates ----

/// The part of page.html of that name; empty when there is none.
std::string_view part(std::string_view name) {
  const std::string mark = "<!-- part: " + std::string(name) + " -->\n";
  const std::size_t start = page_html.find(mark);
  if (start == std::string_view::npos) return "";
  const std::string_view rest = page_html.substr(start + mark.size());
  return rest.substr(0, rest.find("\n<!-- part: "));
}

/// `html` with each $formula$ as MathML and each {{name}} replaced by `value(name)`. What a value
/// brings in is not looked at again, so that no text can pose as a template.
std::string fill(std::string_view html, const std::function<std::string(std::string_view)>& value) {
  std::string filled;
  while (!html.empty()) {
    const std::size_t plain = std::min(html.find_first_of("${"), html.size());
    filled += html.substr(0, plain);
    html.remove_prefix(plain);
    std::string_view mark;
    for (const std::string_view candidate : {"{{", "$$", "$"}) {
      if (mark.empty() && html.starts_with(candidate)) mark = candidate;
    }
    const std::size_t end = html.find(mark == "{{" ? "}}" : mark, mark.size());
    if (mark.empty() || end == std::string_view::npos) {
      filled += html.substr(0, 1);
      html.remove_prefix(std::min<std::size_t>(1, html.size()));
      continue;
    }
    std::size_t length = end + mark.size();
    if (mark == "$")
      length = std::min(html.find_first_not_of(closing_punctuation, length), html.size());
    filled += mark == "{{" ? value(html.substr(2, end - 2)) : math_to_html(html.substr(0, length));
    html.remove_prefix(length);
  }
  return filled;
}

// ---- Figures in prose ----

/// A number with about two significant digits; powers of ten are written as such.
std::string number_html(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "−∞" : "∞";
  char buffer[40];
  const bool long_whole = std::fabs(value) >= 10 && std::fabs(value) < 1e4;
  std::snprintf(buffer, sizeof buffer, long_whole ? "%.0f" : "%.2g", value);
  const std::string_view text = buffer;
  const std::size_t e = text.find('e');
  if (e == std::string_view::npos) return buffer;
  return std::string(text.substr(0, e)) + "&#8239;×&#8239;10<sup>" +
         math_to_text("$" + std::to_string(std::stoi(std::string(text.substr(e + 1)))) + "$") +
         "</sup>";
}

/// A share of a bound in words: "23 % of the bound", or a multiple when it is far beyond.
std::string share_html(double share) {
  if (share > 10) return number_html(share) + " times the bound";
  if (share > 0 && share < 0.0005) return "under 0.1&nbsp;% of the bound";
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, share > 0 && share < 0.01 ? "%.1f" : "%.0f", 100 * share);
  return std::string(buffer) + "&nbsp;% of the bound";
}

/// "prop-3.1" -> "Proposition 3.1".
std::string label_of(std::string_view id) {
  constexpr std::pair<std::string_view, std::string_view> words[] = {
      {"prop-", "Proposition "}, {"cor-", "Corollary "}, {"lemma-", "Lemma "},
      {"thm-", "Theorem "},      {"ex-", "Exercise "},   {"sec-", "Section "},
      {"num-", "Numerics: "}};
  for (const auto& [prefix, word] : words) {
    if (id.starts_with(prefix)) return std::string(word) + escape_html(id.substr(prefix.size()));
  }
  return escape_html(id);
}

/// An id that an address and a style sheet can name: "4.1" -> "section-4-1".
std::string anchor(std::string_view kind, std::string_view id) {
  std::string name = std::string(kind) + "-";
  for (const char c : id) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  return name;
}

/// Prose in which the ids of results are links with their names.
std::string prose_html(std::string_view prose) {
  std::string html = math_to_html(prose);
  for (const Theorem& theorem : theorems()) {
    const std::string link =
        "<a href=\"#" + anchor("result", theorem.id) + "\">" + label_of(theorem.id) + "</a>";
    std::size_t at = 0;
    while ((at = html.find(theorem.id, at)) != std::string::npos) {
      html.replace(at, theorem.id.size(), link);
      at += link.size();
    }
  }
  return html;
}

// ---- Verdicts ----

std::string outcome_html(Outcome outcome) {
  const char* kind = outcome == Outcome::holds      ? "holds"
                     : outcome == Outcome::violated ? "violated"
                                                    : "neither";
  const char* mark = outcome == Outcome::holds ? "✓" : outcome == Outcome::violated ? "✗" : "–";
  return std::string("<span class=\"outcome ") + kind + "\"><span aria-hidden=\"true\">" + mark +
         "</span> " + escape_html(name_of(outcome)) + "</span>";
}

/// How much of its bound a finding used, as a bar and in words.
std::string margin_html(const Finding& finding) {
  const double share = finding.error == 0 ? 0 : finding.error / finding.bound;
  // A NaN fills the bar: what is not a number is within no bound.
  const double filled = share <= 1 ? std::max(share, 0.0) : 1;
  char width[16];
  std::snprintf(width, sizeof width, "%.1f", 100 * filled);
  return "<span class=\"margin\"><span class=\"bar\" aria-hidden=\"true\"><span style=\"width:" +
         std::string(width) + "%\"></span></span><span>" + share_html(share) +
         "</span> <span class=\"sizes\">" + number_html(finding.error) + " of " +
         number_html(finding.bound) + "</span></span>";
}

std::string finding_html(const Finding& finding) {
  std::string html =
      "<li class=\"" + std::string(finding.outcome == Outcome::holds ? "good" : "bad") + "\">" +
      outcome_html(finding.outcome) + "<div><p>" + prose_html(finding.what) +
      " <span class=\"claim\">" + escape_html(name_of(finding.claim)) + "</span></p>";
  if (!finding.note.empty()) html += "<p class=\"note\">" + escape_html(finding.note) + "</p>";
  if (finding.claim == Claim::bounded) html += margin_html(finding);
  return html + "</div></li>\n";
}

std::string findings_html(const Verdict& verdict) {
  std::string html = "<ul class=\"findings\">\n";
  for (const Finding& finding : verdict.findings) html += finding_html(finding);
  return html + "</ul>\n";
}

/// What the same check says of a head with one fault: the findings that fail, and how many do not.
std::string broken_html(const ResultItem& item) {
  if (item.mutant.empty()) return "";
  std::string fault;
  for (const MutantInfo& mutant : mutants()) {
    if (mutant.name == item.mutant) fault = mutant.what;
  }
  Verdict caught;
  for (const Finding& finding : item.broken.findings) {
    if (finding.outcome != Outcome::holds) caught.findings.push_back(finding);
  }
  const std::size_t passed = item.broken.findings.size() - caught.findings.size();
  std::string html = "<div class=\"broken\"><h4>Break it <code>" + escape_html(item.mutant) +
                     "</code></h4><p>" + math_to_html(fault) + ".";
  if (caught.findings.empty()) {
    html += " This check does not notice.";
  } else if (passed > 0) {
    html += " " + std::to_string(passed) + " of " + std::to_string(item.broken.findings.size()) +
            " claims still hold; " + (caught.findings.size() == 1 ? "this one does" : "these do") +
            " not:";
  }
  return html + "</p>\n" + findings_html(caught) + "</div>\n";
}

std::string labelled_html(std::string_view label, std::string_view prose) {
  if (prose.empty()) return "";
  return "<p class=\"labelled\"><span class=\"label\">" + std::string(label) + "</span> " +
         prose_html(prose) + "</p>\n";
}

/// A result with all that its theorem says, or, where it comes up again, its verdict alone.
std::string result_html(const ResultItem& item, bool in_full) {
  const Theorem* theorem = find_theorem(item.theorem);
  const std::string title = theorem ? math_to_html(theorem->title) : "";
  std::string html = "<article class=\"result\"";
  if (in_full) html += " id=\"" + anchor("result", item.theorem) + "\"";
  html += "><header><h3><span class=\"kind\">" + label_of(item.theorem) +
          (in_full ? "" : ", again") + "</span> " + title + "</h3>" +
          outcome_html(item.verdict.outcome()) + "</header>\n";
  if (theorem && in_full) {
    html += "<p class=\"statement\">" + prose_html(theorem->statement) + "</p>\n";
    if (!theorem->proof.empty()) {
      html += "<p class=\"proof\"><span class=\"label\">Proof.</span> " +
              prose_html(theorem->proof) + " <span class=\"end\">∎</span></p>\n";
    }
    html += labelled_html("How it is run.", theorem->execution);
    html += labelled_html("The bound.", theorem->bound);
  }
  html += findings_html(item.verdict);
  if (in_full) html += broken_html(item);
  if (theorem && in_full && !theorem->code.empty()) {
    const auto lines = std::count(theorem->code.begin(), theorem->code.end(), '\n') +
                       (theorem->code.ends_with('\n') ? 0 : 1);
    html += "<details><summary>The check as it ran: " + std::to_string(lines) +
            (lines == 1 ? " line" : " lines") + " of C++</summary><pre tabindex=\"0\"><code>" +
            escape_html(theorem->code) + "</code></pre></details>\n";
  }
  return html + "</article>\n";
}

// ---- Sections ----

bool is_numeric(std::string_view cell) {
  return !cell.empty() && cell.find_first_of("0123456789") != std::string_view::npos &&
         cell.find_first_not_of("0123456789.,+-eE −×%of ") == std::string_view::npos;
}

std::string table_html(const Table& table) {
  std::vector<std::string> kinds(table.columns.size(), " class=\"number\"");
  for (const std::vector<std::string>& row : table.rows) {
    for (std::size_t column = 0; column < std::min(row.size(), kinds.size()); ++column) {
      if (!is_numeric(row[column])) kinds[column].clear();
    }
  }
  const auto line = [&](std::string_view tag, const std::vector<std::string>& cells) {
    std::string html = "<tr>";
    for (std::size_t column = 0; column < cells.size(); ++column) {
      html.append("<").append(tag);
      if (column < kinds.size()) html += kinds[column];
      html.append(">").append(math_to_html(cells[column])).append("</").append(tag).append(">");
    }
    return html + "</tr>\n";
  };
  std::string html =
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table\"><table>\n<thead>" +
      line("th", table.columns) + "</thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : table.rows) html += line("td", row);
  return html + "</tbody>\n</table></div>\n";
}

/// "4.1" in front of its title; an exercise says its number itself.
std::string heading_html(const Section& section) {
  const std::string title = math_to_html(section.title);
  if (section.id.starts_with("ex-")) return title;
  return "<span class=\"section-number\">" + escape_html(section.id) + "</span> " + title;
}

class Page {
 public:
  Page(const Lecture& lecture, const std::vector<std::pair<std::string, std::string>>& pictures)
      : lecture_(lecture), pictures_(pictures) {}

  std::string html() {
    return fill(part("page"), [this](std::string_view name) -> std::string {
      if (name == "css") return std::string(explorer_css) + std::string(page_css);
      if (name == "js") return std::string(explorer_js) + std::string(page_js);
      if (name == "contents") return contents();
      if (name == "provenance") return provenance();
      if (name == "overview") return overview();
      if (name == "sections") return sections();
      return data();
    });
  }

 private:
  std::string contents() const {
    std::string html = "<ol>\n";
    for (const Section& section : lecture_.sections) {
      html += "<li><a href=\"#" + anchor("section", section.id) + "\">" + heading_html(section) +
              "</a></li>\n";
    }
    return html + "</ol>\n";
  }

  std::string provenance() const {
    std::string shown;
    for (const std::string& label : visible_labels(lecture_.shown)) shown += label;
    return "<p class=\"provenance\">Seed " + std::to_string(lecture_.seed) +
           " · text: " + escape_html(lecture_.text_name) + ", which begins <bdi>" +
           escape_html(shown) + "</bdi></p>\n";
  }

  /// Every result once, with the gravest outcome of all its checks and the largest share of a
  /// bound.
  std::string overview() const {
    struct Entry {
      std::string id;
      Verdict verdict;
    };
    std::vector<Entry> entries;
    for (const Section& section : lecture_.sections) {
      for (const Item& item : section.items) {
        const auto* result = std::get_if<ResultItem>(&item);
        if (!result) continue;
        auto entry = std::find_if(entries.begin(), entries.end(), [&](const Entry& candidate) {
          return candidate.id == result->theorem;
        });
        if (entry == entries.end()) entry = entries.insert(entry, {result->theorem, {}});
        entry->verdict.findings.insert(entry->verdict.findings.end(),
                                       result->verdict.findings.begin(),
                                       result->verdict.findings.end());
      }
    }
    std::string html =
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"All results\">"
        "<table class=\"results\">\n<thead><tr><th>result</th><th>says</th><th>verdict</th>"
        "<th class=\"number\">claims checked</th><th class=\"number\">bound "
        "used</th></tr></thead>\n"
        "<tbody>\n";
    for (const Entry& entry : entries) {
      const Theorem* theorem = find_theorem(entry.id);
      const bool bounded =
          std::any_of(entry.verdict.findings.begin(), entry.verdict.findings.end(),
                      [](const Finding& finding) { return finding.claim == Claim::bounded; });
      char used[24];
      std::snprintf(used, sizeof used, "%.1f&nbsp;%%", 100 * entry.verdict.used());
      html += "<tr><td><a href=\"#" + anchor("result", entry.id) + "\">" + label_of(entry.id) +
              "</a></td><td>" + (theorem ? math_to_html(theorem->title) : "") + "</td><td>" +
              outcome_html(entry.verdict.outcome()) + "</td><td class=\"number\">" +
              std::to_string(entry.verdict.findings.size()) + "</td><td class=\"number\">" +
              (bounded ? used : "exact") + "</td></tr>\n";
    }
    return html + "</tbody>\n</table></div>\n";
  }

  std::string sections() {
    std::string html;
    for (const Section& section : lecture_.sections) {
      const std::string id = anchor("section", section.id);
      html += "<section aria-labelledby=\"" + id + "\">\n<h2 id=\"" + id + "\">" +
              heading_html(section) + "</h2>\n";
      // The section's own first sentences come before what this page adds to them.
      auto item = section.items.begin();
      for (; item != section.items.end() && item->index() == 0; ++item) html += item_html(*item);
      html += prose("before section " + section.id);
      for (; item != section.items.end(); ++item) html += item_html(*item);
      html += prose("after section " + section.id) + "</section>\n";
    }
    return html;
  }

  std::string item_html(const Item& item) {
    if (const auto* sentence = std::get_if<std::string>(&item)) {
      return "<p>" + prose_html(*sentence) + "</p>\n";
    }
    if (const auto* table = std::get_if<Table>(&item)) return table_html(*table);
    const auto& result = std::get<ResultItem>(item);
    if (!shown_.insert(result.theorem).second) return result_html(result, false);
    return prose("before result " + result.theorem) + result_html(result, true) +
           prose("after result " + result.theorem);
  }

  /// A part of page.html with its figures.
  std::string prose(const std::string& name) const {
    return fill(part(name), [this](std::string_view value) {
      return figure(std::string(value.substr(value.find(' ') + 1)));
    });
  }

  /// The figure around a picture; nothing when the picture was not given.
  std::string figure(const std::string& name) const {
    const auto picture = std::find_if(pictures_.begin(), pictures_.end(),
                                      [&](const auto& entry) { return entry.first == name; });
    if (picture == pictures_.end()) return "";
    const std::string& png = picture->second;
    // Width and height stand in the first chunk of a PNG; with them the page does not jump about
    // while it loads.
    const auto size = [&](std::size_t at) {
      std::uint32_t value = 0;
      for (std::size_t i = at; i < at + 4 && i < png.size(); ++i) {
        value = value << 8 | static_cast<unsigned char>(png[i]);
      }
      return std::to_string(value);
    };
    return fill(part("picture " + name), [&](std::string_view) {
      return "src=\"data:image/png;base64," + base64(png) + "\" width=\"" + size(16) +
             "\" height=\"" + size(20) + "\"";
    });
  }

  // ---- What page.js draws, as JSON ----

  static std::string json_number(double value) {
    if (!std::isfinite(value)) return "null";  // JSON has no word for it
    char buffer[32];
    const auto end =
        std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::general, 5);
    return std::string(buffer, end.ptr);
  }

  template <class Range, class Function>
  static std::string json_list(const Range& range, Function&& function) {
    std::string json = "[";
    for (const auto& element : range) {
      if (json.size() > 1) json += ",";
      json += function(element);
    }
    return json + "]";
  }

  /// The entries on and below the diagonal of a [length, length] matrix, row after row.
  static std::string json_lower_triangle(View<const float, 2> matrix) {
    std::vector<double> entries;
    for (Index i = 0; i < matrix.shape[0]; ++i) {
      for (Index j = 0; j <= i; ++j) entries.push_back(static_cast<double>(matrix(i, j)));
    }
    return json_list(entries, json_number);
  }

  template <std::size_t Rank>
  Tensor<float, Rank> tensor(const std::string& name) const {
    return to_tensor<float, Rank>(lecture_.tensor(name)).value();
  }

  /// The scores q k^T / sqrt(d_k) of the head of seed 0 on the text.
  Tensor<float, 2> scores() const {
    const Tensor<float, 3> x = tensor<3>("xin");
    const Tensor<float, 3> q = project<float>(x, tensor<2>("h_seed0_query"));
    const Tensor<float, 3> k = project<float>(x, tensor<2>("h_seed0_key"));
    const auto stages = attention_reference<float>(q.view().with_axis(1), k.view().with_axis(1),
                                                   k.view().with_axis(1));
    return Tensor<float, 2>(stages.scores[0][0]);
  }

  std::string data() const {
    const std::vector<int> seeds = {0, 1, 2, 3, 4};
    const std::string weights = json_list(seeds, [this](int seed) {
      return json_lower_triangle(tensor<2>("h_seed" + std::to_string(seed) + "_A"));
    });
    return "{\"labels\":" + json_list(visible_labels(lecture_.shown), json_string) +
           ",\"scores\":" + json_lower_triangle(scores()) + ",\"weights\":" + weights + "}";
  }

  const Lecture& lecture_;
  const std::vector<std::pair<std::string, std::string>>& pictures_;
  std::set<std::string> shown_;  // the results that have had their full say
};

}  // namespace

std::string lecture_page(const Lecture& lecture,
                         const std::vector<std::pair<std::string, std::string>>& pictures) {
  return Page(lecture, pictures).html();
}

}  // namespace headproof
