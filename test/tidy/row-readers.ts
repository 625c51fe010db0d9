/** No code decides from events, and none searches for work among effects. */
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
