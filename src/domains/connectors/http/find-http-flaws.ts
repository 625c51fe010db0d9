/** What is wrong with the settings of an HTTP connector, before it is ever called. Pure. */
import type { HttpConnectorInput } from './http-settings.ts'
import { httpMethods } from './http-settings.ts'
import { isRange } from './ip-address.ts'
import { decideUrl, type Reach } from './reach.ts'

export function findHttpFlaws(input: HttpConnectorInput, reach: Reach): readonly string[] {
  const { base_url, auth = {}, operations } = input
  const base = decideUrl(base_url, reach)
  const token = auth.token_url
  return [
    ...(base.ok ? [] : [`base_url: ${base.reason}`]),
    ...(base.ok && (base.value.search !== '' || base.value.hash !== '') ? ['base_url has a query or a fragment'] : []),
    ...reach.private_networks.filter((range) => !isRange(range)).map((range) => `${range} is no range of addresses`),
    ...(reach.hosts.length === 0 ? ['it may call no host at all'] : []),
    ...(auth.mode === 'connection_string' ? ['connection_string is no auth mode of HTTP'] : []),
    ...(auth.mode === 'oauth_client_credentials' &&
    (token === undefined || !URL.canParse(token) || auth.client_id === undefined)
      ? ['oauth_client_credentials needs token_url and client_id']
      : []),
    ...operations.flatMap(findFormFlaws),
  ]
}

function findFormFlaws(operation: HttpConnectorInput['operations'][number]): readonly string[] {
  const { name, method, path, url_from, side_effect_class: kind } = operation
  const reads = method === 'GET' || method === 'HEAD'
  return [
    ...(httpMethods.includes(method) ? [] : [`${name} has a method that is not known`]),
    ...((path === undefined) === (url_from === undefined) ? [`${name} needs either path or url_from`] : []),
    ...(path !== undefined && !path.startsWith('/') ? [`the path of ${name} does not begin with /`] : []),
    ...(path?.split('/').some((part) => part === '.' || part === '..')
      ? [`the path of ${name} has dots for a part`]
      : []),
    ...(reads && kind !== 'none' ? [`${name} sends ${method} and says that it changes something`] : []),
  ]
}
