/** The states of missions and of their tasks have one writer: `batch.ts`, which asks the machine. */
import { type Finding, lineAt } from './finding.ts'
import { isTest, sources, type Tree } from './tree.ts'

/** The statements that write a state. The inserts write the first one. */
const stateStatements: readonly string[] = ['missions.update', 'missions.update_tasks', 'missions.insert_tasks']
/** The functions that run those that change it, where they are, and their only caller. */
const changers: Readonly<Record<string, string>> = {
  updateMission: 'src/domains/missions/mission.ts',
  updateTasks: 'src/domains/missions/mission-task.ts',
}
const caller = 'src/domains/missions/batch.ts'

/** An update, a merge or an insert, up to where its values come from. */
const write =
  /\b(?:update|merge\s+into|insert\s+into)\s+(?:only\s+)?missions\.orchestration_(?:runs|tasks)\b(?<columns>[\s\S]*?)(?:\bwhere\b|\bfrom\b|\bvalues\b|[`;]|$)/gi

export function checkStateWriters(tree: Tree): Finding[] {
  const code = sources(tree, 'src').filter(([path]) => !isTest(path))
  const migrations = [...tree].filter(([path]) => path.startsWith('src/store/migrations/'))
  return [
    ...[...code, ...migrations].flatMap(([path, text]) => statementFindings(path, withTables(text))),
    ...code.flatMap(([path, text]) => callFindings(path, text)),
  ]
}

/** The text with the constants of the file in their places. They have no line breaks, so lines stay. */
function withTables(text: string): string {
  const names = [...text.matchAll(/^const (\w+) = '(missions\.\w+)'$/gm)]
  return names.reduce((all, [, name = '', table = '']) => all.replaceAll(`\${${name}}`, table), text)
}

function statementFindings(path: string, text: string): Finding[] {
  return [...text.matchAll(write)]
    .filter(({ groups }) => /\bstate(?:_type)?\b/.test(groups?.['columns'] ?? ''))
    .filter(({ index }) => !stateStatements.includes(nameBefore(text, index)))
    .map(({ index }) => ({ path, line: lineAt(text, index), problem: 'writes a state: move it with a Batch' }))
}

/** The name of the statement around the match. */
function nameBefore(text: string, at: number): string {
  return [...text.slice(0, at).matchAll(/'(missions\.[a-z_]+)',\s*`/g)].at(-1)?.[1] ?? ''
}

function callFindings(path: string, text: string): Finding[] {
  return Object.entries(changers)
    .filter(([, home]) => path !== caller && path !== home)
    .flatMap(([name]) =>
      [...text.matchAll(new RegExp(`\\b${name}\\b`, 'g'))].map(({ index }) => ({
        path,
        line: lineAt(text, index),
        problem: `uses ${name}: only ${caller} does`,
      })),
    )
}
