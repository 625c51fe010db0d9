import { readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { refusals } from '#refusals'
import { assertFindings, assertTidy, type Finding } from './finding.ts'
import { checkNamedCommands, helpPin, readHelp } from './named-commands.ts'
import { plantTree, readTree } from './tree.ts'

const planted = readHelp(
  '# concord\n  --json  x\n\n# concord jobs\nUsage\n\n# concord jobs list\n  --status <s>\n\n# concord why\nUsage: concord why <id>\n',
)
const found = (path: string, text: string) => checkNamedCommands(plantTree({ [path]: text }), planted)

describe('named commands', () => {
  test('a command, a verb or a flag that does not exist is found', () => {
    assertFindings(found('docs/guides/a.md', 'Run `concord wy cmd_1`.'), [
      'docs/guides/a.md:1: names `concord wy cmd_1`, which does not exist',
    ])
    assertFindings(found('docs/guides/a.md', '```\n$ concord jobs show job_1\n```'), [
      'docs/guides/a.md:2: names `concord jobs show`, which does not exist',
    ])
    assertFindings(found('src/cli/a.ts', "hint: '`concord jobs list --state x`'"), [
      'src/cli/a.ts:1: gives `concord jobs list` the flag --state, which it does not take',
    ])
  })

  test('what exists, places to fill in, and programs behind -- are left alone', () => {
    const text = [
      '`concord why <id>`, `concord jobs list --status FAILED --json`, `concord jobs`, `concord why ${id}`',
      '$ ./concord jobs list --status FAILED | grep --count x',
      '`concord why cmd_1 -- --foo`',
    ]
    assertFindings(found('docs/guides/a.md', text.slice(0, 1).join('\n')), [])
    assertFindings(found('docs/guides/a.md', text.slice(2).join('\n')), [])
  })

  test('every command that a text names exists', () =>
    assertTidy(checkNamedCommands(readTree(), readHelp(readFileSync(helpPin, 'utf8')))))

  test('every route that a hint of a code names exists', () => {
    const { paths } = JSON.parse(readFileSync('openapi.json', 'utf8')) as { paths: Record<string, object> }
    const known = new Set(
      Object.entries(paths).flatMap(([path, verbs]) =>
        Object.keys(verbs).map((verb) => `${verb.toUpperCase()} ${path.replaceAll(/\{\w+\}/g, '{}')}`),
      ),
    )
    const findings = Object.entries(refusals).flatMap(([code, [, hint]]): Finding[] =>
      [...hint.matchAll(/\b(GET|POST|PATCH|DELETE) \/[\w/{}.-]*[\w}]/g)]
        .filter(([route]) => !known.has(route.replaceAll(/\{\w+\}/g, '{}')))
        .map(([route]) => ({ path: code, problem: `names ${route}, which does not exist` })),
    )
    assertTidy(findings)
  })
})
