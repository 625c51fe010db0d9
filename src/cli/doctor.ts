/** `concord doctor`: looks at this machine, the data folder, the database and the server, and says what to do about each. */
import type { Command } from 'commander'
import { readConfig } from '#app/config'
import type { Finding } from '#app/examine'
import { settings } from '#app/settings'
import { accept, refuse } from '#kernel/refusal'
import { type Cli, colorsOf, formatTable, type Terminal } from './terminal.ts'

export function addDoctor(program: Command, cli: Cli): void {
  program
    .command('doctor')
    .description('check this machine, the data folder, the database and the server')
    .option('--settings', 'list every setting with its meaning')
    .option('--deep', 'also read everything on record, and name what breaks a promise')
    .addHelpText('after', '\nExample:\n  $ concord doctor --json\n  $ concord doctor --deep\n')
    .action(
      cli.handle(async (options: { settings?: boolean; deep?: boolean }) => {
        const { terminal } = cli
        const json = program.opts()['json'] === true
        if (options.settings === true) return listSettings(terminal, json)
        const config = readConfig(terminal.environment, terminal.folder)
        if (!config.ok) return config
        const { examine } = await import('#app/examine')
        const findings = await examine(config.value, { deep: options.deep === true })
        if (json) terminal.out(`${JSON.stringify({ findings })}\n`)
        else for (const finding of findings) terminal.out(formatFinding(terminal, finding))
        const worst = findings.find((finding) => finding.state === 'broken')
        if (!worst) return accept(undefined)
        return refuse(
          'app.unhealthy',
          `${findings.filter((finding) => finding.state === 'broken').length} checks failed`,
          {
            path: worst.check,
            ...(worst.next === undefined ? {} : { hint: worst.next }),
          },
        )
      }),
    )
}

function formatFinding(terminal: Terminal, finding: Finding): string {
  const color = colorsOf(terminal)
  const mark = { well: color.green('ok    '), note: color.yellow('note  '), broken: color.red('broken') }[finding.state]
  const next = finding.next === undefined ? '' : `\n        next: ${finding.next}`
  return `${mark}  ${finding.check}: ${finding.found}${next}\n`
}

function listSettings(terminal: Terminal, json: boolean) {
  const rows = Object.values(settings).map(({ variable, meaning, example }) => ({ variable, meaning, example }))
  if (json) terminal.out(`${JSON.stringify({ settings: rows })}\n`)
  else
    terminal.out(
      formatTable(
        ['variable', 'example', 'meaning'],
        rows.map((row) => [row.variable, row.example, row.meaning]),
      ),
    )
  return accept(undefined)
}
