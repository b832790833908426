package eiderhttp

import (
	"net/url"
	"strings"
	"testing"

	"github.com/eiderhq/eider"
)

func TestTargets(t *testing.T) {
	for _, row := range []struct {
		scheme, host  string
		service, port string // "" means no service
	}{
		{"http", "orders", "orders", ""}, {"HTTP", "Orders", "orders", ""}, {"https", "orders:443", "orders", ""},
		{"http", "orders:80", "orders", ""}, {"http", "orders:", "orders", ""}, {"http", "orders.shop", "orders.shop", ""},
		{"http", "_admin.orders", "orders", "admin"}, {"https", "_Admin.Orders.shop:443", "orders.shop", "admin"},
		{"http", "orders:443", "", ""}, {"https", "orders:80", "", ""}, {"http", "orders:8080", "", ""},
		{"http", "", "", ""}, {"http", ":80", "", ""}, {"http", "localhost", "", ""}, {"http", "127.0.0.1", "", ""}, {"http", "127.0.0.1:80", "", ""},
		{"http", "[::1]", "", ""}, {"http", "[::1]:80", "", ""}, {"http", "_.orders", "", ""}, {"http", "_admin", "", ""}, {"http", "orders.", "", ""},
		{"ftp", "orders", "", ""}, {"", "orders", "", ""}, {"http", "ordérs", "", ""}, {"http", "1orders", "1orders", ""}, {"http", "1.2.3", "1.2.3", ""},
	} {
		to, err := parseTarget(row.scheme, row.host)
		if (err == nil) != (row.service != "") || to != (target{row.service, row.port}) && err == nil {
			t.Errorf("%s://%s is %+v, %v; want %+v", row.scheme, row.host, to, err, row)
		}
	}
}

func FuzzTarget(f *testing.F) {
	for _, u := range []string{"http://orders/pay", "https://_admin.Orders:443/", "http://127.0.0.1/", "http://[::1]:80/", "http://a:b@orders/", "//orders"} {
		f.Add(u)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		to, err := parseTarget(u.Scheme, u.Host)
		if err != nil {
			return
		}
		if e := eider.CheckService(to.service); e != nil || to.service == "localhost" || strings.ContainsAny(to.service, ":[]@/") {
			t.Errorf("%q is taken for the service %q: %v", text, to.service, e)
		}
		if again, err := parseTarget("http", strings.ToUpper(to.service)); err != nil || again.service != to.service {
			t.Errorf("%q isn't stable: %+v, %v", to.service, again, err)
		}
	})
}
