/** No code decides from events, none searches for work among effects, and each view reads the tables of its own side. */
import { type Finding, lineAt } from './finding.ts'
import { isTest, sources, type Tree } from './tree.ts'

/** Readers of events, each with its purpose; none of them decides about a command. */
const eventReaders: Readonly<Record<string, string>> = {
  'src/domains/commands/alerts.ts':
    'alerts operators of an incident once: the incident and the alert are facts, and no command follows from them',
  'src/domains/commands/read-commands.ts': 'shows history and audit to people',
  'src/domains/commands/actions/action-decision.ts':
    'tells an agent what policy said about its proposal; decides nothing',
  'src/domains/commands/write-command.ts':
    'finds its own event by id, to know whether a broken connection had committed',
  'src/domains/approvals/sweep-approvals.ts': 'reminds once: a reminder is a fact and no state of the approval',
  'src/domains/approvals/notify-approvers.ts': 'tells each thing once: a notice is a fact and no state of the approval',
  'src/domains/commands/history/due-events.ts':
    'finds what is old enough to move into the archive; the rows of commands decide',
  'src/domains/commands/history/history-archive.ts': 'shows history to the operator',
  'src/domains/commands/invariants/find-broken-invariants.ts':
    'compares rows with their events, for a person who examines an installation; decides nothing',
  'src/domains/commands/invariants/invariants.ts':
    'compares rows with their events, for a person who examines an installation; decides nothing',
  'src/domains/agents/swarms/verify-authority.ts':
    'compares the authority of runs with the events of their start, for a person who examines it; decides nothing',
  'src/domains/missions/turn.ts': 'names the person who cancelled, for the event of the mission; decides nothing',
  'src/domains/agents/events.ts': 'shows the steps of a run to people',
  'src/domains/agents/run-invariants.ts':
    'compares runs with their steps, for a person who examines an installation; decides nothing',
}

export function checkEventReaders(tree: Tree): Finding[] {
  return sources(tree, 'src/domains', 'src/api', 'src/app')
    .filter(([path]) => !isTest(path) && !Object.hasOwn(eventReaders, path))
    .flatMap(([path, text]) =>
      [...text.matchAll(/\b(?:from|join)\s+concord\.(?:domain_events|journal)\b/g)].map(({ index }) => ({
        path,
        line: lineAt(text, index),
        problem: 'reads events: decide from rows, or say in row-readers.ts what it shows',
      })),
    )
}

/** An effect is read by its command or its id, or counted; a search for open effects would be a queue. */
export function checkEffectReaders(tree: Tree): Finding[] {
  return sources(tree, 'src/domains', 'src/api', 'src/app', 'src/store', 'src/runtime')
    .filter(([path]) => !isTest(path))
    .flatMap(([path, text]) =>
      [...text.matchAll(/\b(?:from|update)\s+concord\.domain_effects\b/g)]
        .filter(({ index }) => !isNamedOrCounted(text, index))
        .map(({ index }) => ({
          path,
          line: lineAt(text, index),
          problem: 'looks for effects without naming a command: effects are no queue',
        })),
    )
}

/** The statement around the match, from quote to quote. */
function isNamedOrCounted(text: string, at: number): boolean {
  const statement = text.slice(text.lastIndexOf('`', at), text.indexOf('`', at))
  return /\b(?:command_id|domain_effect_id)\s*=/.test(statement) || /count\(\*\)/.test(statement)
}

/** Readers of the tables of the runtime outside of it, each with its purpose; none of them is a view of the business. */
const runtimeReaders: Readonly<Record<string, string>> = {
  'src/app/watch-clock.ts': 'compares the clock with the times that the runtime has written',
  'src/app/examine.ts': 'shows an operator how many processes are stuck',
  'src/testing/open-test-concord.ts': 'wakes schedules after a test has moved the clock',
}

/** A view of the business reads the tables of Concord, a view of the execution those of the runtime, and no statement reads both. */
export function checkViewReaders(tree: Tree): Finding[] {
  const ofRuntime = (path: string) => path.startsWith('src/runtime/')
  const find = (path: string, text: string, schemas: string, problem: string) =>
    [...text.matchAll(new RegExp(`\\b(?:from|join|into|update)\\s+(?:${schemas})\\.[a-z]`, 'g'))].map(({ index }) => ({
      path,
      line: lineAt(text, index),
      problem,
    }))
  return sources(tree, 'src')
    .filter(([path]) => !isTest(path) && !Object.hasOwn(runtimeReaders, path))
    .flatMap(([path, text]) =>
      ofRuntime(path)
        ? find(path, text, 'concord|identity|schedules', 'reads tables of Concord: the runtime knows processes alone')
        : find(path, text, 'runtime|dbos', 'reads tables of the runtime: ask its port, or say in row-readers.ts why'),
    )
}
