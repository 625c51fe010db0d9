/** `concord up`: starts everything on this machine, says where it is and what to do next, and stops cleanly. */
import type { Command } from 'commander'
import { readConfig } from '#app/config'
import type { RunningServer } from '#app/start-server'
import { accept } from '#kernel/refusal'
import { nextSteps } from './next-steps.ts'
import { type Cli, colorsOf, stopRequest, type Terminal } from './terminal.ts'

export function addUp(program: Command, cli: Cli): void {
  program
    .command('up')
    .description('start the database, bring its schema up to date and serve the API')
    .addHelpText('after', '\nExample:\n  $ CONCORD_PORT=8000 concord up\n')
    .action(
      cli.handle(async () => {
        const config = readConfig(cli.terminal.environment, cli.terminal.folder)
        if (!config.ok) return config
        const json = program.opts()['json'] === true
        const { startServer } = await import('#app/start-server')
        const started = await startServer({
          config: config.value,
          environment: cli.terminal.environment,
          folder: cli.terminal.folder,
          onProgress: (step) => (json ? undefined : cli.terminal.err(`${step}\n`)),
        })
        if (!started.ok) return started
        announce(cli.terminal, started.value, json)
        await stopRequest(cli.terminal.stop)
        if (!json) cli.terminal.err('stopping\n')
        await started.value.close()
        return accept(undefined)
      }),
    )
}

function announce(terminal: Terminal, server: RunningServer, json: boolean): void {
  const { address, home, database, keyFile, schemaVersion, schedulerFile, environmentName } = server
  if (json) {
    terminal.out(
      `${JSON.stringify({
        ready: true,
        address,
        home,
        database,
        key_file: keyFile,
        schema_version: schemaVersion,
        scheduler_file: schedulerFile ?? null,
        environment: environmentName ?? null,
      })}\n`,
    )
    return
  }
  const color = colorsOf(terminal)
  terminal.out(
    [
      color.bold('Concord is ready'),
      `  address   ${color.cyan(address)}   (API reference: ${address}/reference)`,
      `  data      ${home}`,
      `  database  ${database}`,
      `  key       ${keyFile}`,
      ...(schedulerFile === undefined ? [] : [`  jobs      ${schedulerFile}`]),
      ...(environmentName === undefined ? [] : [`  takes     only the work of the environment ${environmentName}`]),
      '',
      'Next, in another terminal of this folder:',
      ...nextSteps(terminal, server).map((line) => `  ${line}`),
      '',
      `Ctrl-C stops it.`,
      '',
    ].join('\n'),
  )
}
