/** What is wrong with a mount, before its server is ever started. Pure. */
import { isAbsolute } from 'node:path'
import { isRange } from '../http/ip-address.ts'
import { decideUrl, httpReachOf } from '../http/reach.ts'
import type { HttpServer, McpConnectorInput, StdioServer } from './mcp-settings.ts'

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/

export function findMcpFlaws({ server, tools }: McpConnectorInput): readonly string[] {
  const names = Object.entries(tools).map(([operation, { tool = operation }]) => tool)
  return [
    ...names.filter((name, at) => names.indexOf(name) !== at).map((name) => `the tool ${name} is mounted twice`),
    ...('stdio' in server ? findStdioFlaws(server.stdio) : findHttpFlaws(server.http)),
  ]
}

function findStdioFlaws({ command, cwd, env = {}, secret_env = {} }: StdioServer): readonly string[] {
  const variables = [...Object.keys(env), ...Object.keys(secret_env)]
  return [
    ...(isAbsolute(command) ? [] : ['command is no absolute path: nothing is looked up in a PATH']),
    ...(cwd === undefined || isAbsolute(cwd) ? [] : ['cwd is no absolute path']),
    ...variables.filter((name) => !VARIABLE.test(name)).map((name) => `${name} is no name of a variable`),
    ...variables.filter((name, at) => variables.indexOf(name) !== at).map((name) => `${name} is set twice`),
  ]
}

function findHttpFlaws({ url, auth, reach }: HttpServer): readonly string[] {
  if (!URL.canParse(url)) return ['url is no address']
  const full = httpReachOf(new URL(url), reach)
  const decided = decideUrl(url, full)
  return [
    ...(decided.ok ? [] : [`url: ${decided.reason}`]),
    ...full.private_networks.filter((range) => !isRange(range)).map((range) => `${range} is no range of addresses`),
    ...(['none', 'bearer', 'api_key'].includes(auth?.mode ?? 'none')
      ? []
      : ['an MCP server is called with the auth mode none, bearer or api_key']),
  ]
}
