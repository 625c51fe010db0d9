/** `concord doctor`: checks this machine, the data folder, the database and the server, with a next step for each finding. */
import { readConfig } from '#app/config'
import type { DoctorFinding } from '#app/examine'
import { settings, telemetrySettings } from '#app/settings'
import { accept, refuse } from '#kernel/refusal'
import { action, type Add, type TableColumns, showAnswer, table } from './noun.ts'
import { type Cli, colorsOf, counted, type Terminal } from './terminal.ts'

export const doctor = (cli: Cli): Add =>
  action({
    description: 'check this machine, the data folder, the database and the server',
    options: [
      ['--settings', 'list every setting with its meaning'],
      ['--deep', 'also read every record and report broken invariants'],
    ],
    examples: ['concord doctor --json', 'concord doctor --deep'],
    async run(options: { settings?: boolean; deep?: boolean }) {
      const { terminal } = cli
      if (options.settings === true) return listSettings(cli)
      const config = readConfig(terminal.environment, terminal.folder)
      if (!config.ok) return config
      const { examine } = await import('#app/examine')
      const findings = await examine(config.value, { deep: options.deep === true })
      await showAnswer(cli, accept({ findings }), () => findings.map((each) => formatFinding(terminal, each)).join(''))
      const broken = findings.filter((finding) => finding.status === 'broken')
      const [first] = broken
      if (!first) return accept(undefined)
      const hint = first.next === undefined ? {} : { hint: first.next }
      return refuse('app.unhealthy', `${counted(broken.length, 'check')} failed.`, { path: first.check, ...hint })
    },
  })

function formatFinding(terminal: Terminal, finding: DoctorFinding): string {
  const color = colorsOf(terminal)
  const mark = { well: color.green('ok    '), note: color.yellow('note  '), broken: color.red('broken') }[
    finding.status
  ]
  const next = finding.next === undefined ? '' : `\n        next: ${finding.next}`
  return `${mark}  ${finding.check}: ${finding.found}${next}\n`
}

function listSettings(cli: Cli) {
  const all = [...Object.values(settings), ...telemetrySettings]
  const rows = all.map(({ variable, meaning, example }) => ({ variable, meaning, example }))
  const columns: TableColumns<(typeof rows)[number]> = {
    variable: ({ variable }) => variable,
    example: ({ example }) => example,
    meaning: ({ meaning }) => meaning,
  }
  return showAnswer(cli, accept({ settings: rows }), () => table(cli.terminal, columns, rows, { long: 'wrap' }))
}
