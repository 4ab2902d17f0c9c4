//! How the board looks. Every text that an agent or a person wrote is made safe before it is a cell.

use super::board::{Board, Question};
use crate::text::{duration, safe, short};
use contract::{RunView, Status};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use std::time::Duration;

/// Most of the screen that the list of runs takes, as one part of so many.
const LIST_PART: u16 = 2;

/// How much of a goal is looked at; the screen cuts it where it ends.
const GOAL_CHARS_MAX: usize = 200;

/// Draws all of it; `color` says whether colours are wanted.
pub(super) fn draw(board: &mut Board, frame: &mut Frame<'_>, color: bool) {
    let list = match board.zoomed || board.question.is_some() {
        true => 0,
        false => u16::try_from(board.runs.len()).unwrap_or(u16::MAX).clamp(1, (frame.area().height / LIST_PART).max(1)),
    };
    let rows = [Constraint::Length(1), Constraint::Length(list), Constraint::Length(1), Constraint::Min(1)];
    let [title, runs, heading, main, keys] =
        Layout::vertical(rows.into_iter().chain([Constraint::Length(1)])).areas(frame.area());
    board.page = main.height.into();
    frame.render_widget(Line::styled(summary(board), Modifier::BOLD), title);
    draw_runs(board, frame, runs, color);
    frame.render_widget(Line::styled(chosen(board), Modifier::UNDERLINED), heading);
    match board.question.take() {
        Some(mut question) => {
            draw_question(&mut question, frame, main);
            board.question = Some(question);
        }
        None => draw_events(board, frame, main),
    }
    frame.render_widget(Line::styled(hint(board), Modifier::DIM), keys);
}

fn summary(board: &Board) -> String {
    let count = |status: Status| board.runs.iter().filter(|run| run.status == status).count();
    let (running, waiting, paused) = (count(Status::Running), count(Status::Waiting), count(Status::Paused));
    format!("norma · {running} running · {waiting} need you · {paused} paused · {} shown", board.runs.len())
}

fn draw_runs(board: &Board, frame: &mut Frame<'_>, area: Rect, color: bool) {
    let (place, height) = (board.place().unwrap_or_default(), usize::from(area.height));
    let first = place.saturating_sub(height.saturating_sub(1));
    let shown = board.runs.iter().enumerate().skip(first).take(height);
    let lines = shown.map(|(index, run)| {
        let chosen = if index == place { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        let word = Span::styled(format!("{:<11}", run.word()), if color { colour(run) } else { Style::new() });
        let rest = format!("{:>7}  {}", age(run), short(&run.goal, GOAL_CHARS_MAX));
        Line::from(vec![Span::raw(format!("{}  ", run.run_id)), word, Span::raw(rest)]).style(chosen)
    });
    let empty = "no runs yet; start one: norma run \"what you want\"";
    let text = if board.runs.is_empty() { Text::raw(empty) } else { Text::from_iter(lines) };
    frame.render_widget(text, area);
}

fn colour(run: &RunView) -> Style {
    let color = match run.status {
        Status::Running => Color::Cyan,
        Status::Waiting => Color::Yellow,
        Status::Succeeded => Color::Green,
        Status::Failed | Status::Stopped => Color::Red,
        _ => Color::Reset,
    };
    Style::new().fg(color)
}

fn age(run: &RunView) -> String {
    let end = run.ended_at.unwrap_or_else(store::now);
    duration(Duration::from_millis(end.unix_ms().saturating_sub(run.created_at.unix_ms())))
}

/// What stands over the lower part: the chosen run, and what it needs.
fn chosen(board: &Board) -> String {
    match (board.run(), &board.question, board.needs()) {
        (None, _, _) => String::new(),
        (Some(run), Some(question), _) => format!("{} needs your approval ({})", run.run_id, question.id),
        (Some(run), None, Some(_)) => format!("{} needs your approval: a shows what for", run.run_id),
        (Some(run), None, None) => format!("{} {}", run.run_id, run.word()),
    }
}

fn draw_events(board: &Board, frame: &mut Frame<'_>, area: Rect) {
    let height = usize::from(area.height);
    let end = board.events.len().saturating_sub(board.back).max(height.min(board.events.len()));
    let lines = board.events.range(end.saturating_sub(height)..end).map(|line| Line::raw(line.as_str()));
    frame.render_widget(Text::from_iter(lines), area);
}

fn draw_question(question: &mut Question, frame: &mut Frame<'_>, area: Rect) {
    let rows: Vec<String> =
        question.lines.iter().flat_map(|line| wrapped(&safe(line), usize::from(area.width))).collect();
    let height = usize::from(area.height);
    question.top = question.top.min(rows.len().saturating_sub(height));
    question.seen |= question.top + height >= rows.len();
    let shown = rows.iter().skip(question.top).take(height).map(|row| Line::raw(row.as_str()));
    frame.render_widget(Text::from_iter(shown), area);
}

/// A line in rows of this width: nothing of it may be behind the edge, since somebody approves what they see.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    let mut used = 0;
    for letter in line.chars() {
        let wide = Span::raw(letter.to_string()).width();
        if used + wide > width && used > 0 {
            rows.push(String::new());
            used = 0;
        }
        rows.last_mut().expect("BUG: there is always one row").push(letter);
        used += wide;
    }
    rows
}

fn hint(board: &Board) -> String {
    let keys = match (&board.question, board.zoomed, board.needs().is_some()) {
        (Some(_), _, _) => "a approve once · d deny · ↑↓ read · Esc leave it",
        (None, true, _) => "↑↓ scroll · Enter all runs · q quit",
        (None, false, true) => "↑↓ choose · Enter events · a approve · d deny · q quit",
        (None, false, false) => "↑↓ choose · Enter events · q quit",
    };
    if board.said.is_empty() { keys.to_owned() } else { format!("{} · {keys}", safe(&board.said)) }
}

#[cfg(test)]
mod tests {
    use super::super::board::{Effect, Key};
    use super::*;
    use contract::{ApprovalDecision, ApprovalId, ApprovalView};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;

    fn run(number: u8, status: &str, goal: &str) -> RunView {
        let base = "0".repeat(40);
        serde_json::from_value(json!({
            "run_id": format!("20260102-030405-00000{number}"), "id": format!("01890000-0000-7000-8000-00000000000{number}"),
            "goal": goal, "status": status, "reason": null, "message": null, "verdict": null, "iteration": 0,
            "created_at": "2026-01-02T03:04:05.000Z", "ended_at": "2026-01-02T03:04:17.000Z", "base": base,
            "result": null, "landed": null, "landing": null, "task_id": null, "parent": null, "sandbox": "native",
            "run_dir": "", "tests": null, "left_out": [], "receipts": [], "usage": null,
        }))
        .unwrap()
    }

    fn asked(of: &RunView, reason: &str) -> ApprovalView {
        serde_json::from_value(json!({
            "id": "01890000-0000-7000-8000-0000000000aa", "run_id": of.run_id, "state": "pending", "reasons": [reason],
            "bound": "0".repeat(64), "asked_at": "2026-01-02T03:04:05.000Z", "expires_at": "2026-01-03T03:04:05.000Z",
            "decision": null, "by": null, "reason": null, "answered_at": null, "used_at": null,
        }))
        .unwrap()
    }

    fn shown(board: &mut Board, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(board, frame, false)).unwrap();
        let rows = terminal.backend().buffer().content.chunks(width.into());
        let rows = rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned());
        rows.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn runs_are_listed_and_the_chosen_one_tells_its_events() {
        let mut board = Board::default();
        board.update(vec![run(2, "running", "fix \u{1b}[2Jit"), run(1, "succeeded", "done")], Vec::new());
        board.add(["   1  started".to_owned(), "   2  step".to_owned()]);
        insta::assert_snapshot!(shown(&mut board, 60, 8), @r"
        norma · 1 running · 0 need you · 0 paused · 2 shown
        20260102-030405-000002  running        12s  fix \u{1b}[2Jit
        20260102-030405-000001  succeeded      12s  done
        20260102-030405-000002 running
           1  started
           2  step

        ↑↓ choose · Enter events · q quit
        ");
        assert_eq!(board.press(Key::Down), Effect::Nothing);
        assert!(board.events.is_empty() && board.read == 0, "another run has events of its own");
        assert!(shown(&mut board, 60, 8).contains("20260102-030405-000001 succeeded"));
        assert_eq!(board.press(Key::Letter('q')), Effect::Quit);
    }

    #[test]
    fn who_scrolls_back_stays_where_they_are_while_more_happens() {
        let mut board = Board::default();
        board.update(vec![run(1, "running", "x")], Vec::new());
        board.add((1..=10).map(|number| format!("event {number}")));
        board.press(Key::Enter);
        assert!(shown(&mut board, 30, 6).contains("event 10"));
        board.press(Key::Up);
        let before = shown(&mut board, 30, 6);
        assert!(!before.contains("event 10") && before.contains("event 9"), "{before}");
        board.add(["event 11".to_owned()]);
        assert_eq!(shown(&mut board, 30, 6), before);
    }

    #[test]
    fn nothing_is_approved_whose_end_was_not_on_the_screen() {
        let mut board = Board::default();
        let run = run(1, "waiting", "x");
        let needed = asked(&run, &format!("run {} rm -rf evil", "x".repeat(300)));
        let id: ApprovalId = needed.id;
        board.update(vec![run], vec![needed]);
        board.press(Key::Letter('a'));
        assert!(!shown(&mut board, 40, 8).contains("evil"));
        assert_eq!(board.press(Key::Letter('a')), Effect::Nothing);
        assert!(board.said.contains("read it to its end"));
        board.press(Key::PageDown);
        assert!(shown(&mut board, 40, 8).contains("evil"));
        assert_eq!(board.press(Key::Letter('a')), Effect::Answer(id, ApprovalDecision::Granted));
        board.press(Key::Letter('d'));
        assert_eq!(board.press(Key::Letter('d')), Effect::Answer(id, ApprovalDecision::Denied));
    }
}
