'use strict';
(function () {
	function make(name, text) {
		var e = document.createElement(name);
		e.textContent = text;
		return e;
	}
	function select(e) {
		var range = document.createRange();
		range.selectNodeContents(e);
		var s = getSelection();
		s.removeAllRanges();
		s.addRange(range);
	}
	document.querySelectorAll('.copied').forEach(function (e) {
		var text = e.textContent, button = make('button', 'Copy');
		button.type = 'button';
		button.addEventListener('click', function () {
			function done() { button.textContent = 'Copied'; }
			function other() { select(e); button.textContent = 'Selected'; }
			if (navigator.clipboard)
				navigator.clipboard.writeText(text).then(done, other);
			else
				other();
		});
		if (e.tagName === 'PRE')
			e.after(button);
		else
			e.append(button);
	});
	document.querySelectorAll('figure').forEach(function (f) {
		if (!f.querySelector('.picture'))
			return;
		var button = make('button', 'Zoom');
		button.type = 'button';
		button.setAttribute('aria-pressed', 'false');
		button.addEventListener('click', function () {
			button.setAttribute('aria-pressed', String(f.classList.toggle('zoomed')));
			var mark = f.querySelector('.picture .k-bad') || f.querySelector('.picture circle,.picture rect');
			if (mark)
				f.scrollLeft += mark.getBoundingClientRect().left - f.getBoundingClientRect().left - f.clientWidth / 2;
		});
		f.querySelector('figcaption').append(button);
	});
	document.querySelectorAll('details[id^=events],details[id^=waves]').forEach(function (d) {
		var rows = d.querySelectorAll('.event,.rows tbody tr');
		if (rows.length < 8)
			return;
		var input = document.createElement('input');
		input.type = 'search';
		input.placeholder = 'Filter';
		input.setAttribute('aria-label', 'Filter');
		input.addEventListener('input', function () {
			var wanted = input.value.toLowerCase();
			rows.forEach(function (r) { r.hidden = wanted !== '' && r.textContent.toLowerCase().indexOf(wanted) < 0; });
		});
		d.querySelector('summary').after(input);
	});
	function reveal() {
		var e = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
		for (var d = e; d; d = d.parentElement)
			if (d.tagName === 'DETAILS')
				d.open = true;
		if (e)
			e.scrollIntoView();
	}
	addEventListener('hashchange', reveal);
	reveal();
	var opened = [];
	addEventListener('beforeprint', function () {
		document.querySelectorAll('details:not([open])').forEach(function (d) { d.open = true; opened.push(d); });
	});
	addEventListener('afterprint', function () {
		opened.forEach(function (d) { d.open = false; });
		opened = [];
	});
})();
